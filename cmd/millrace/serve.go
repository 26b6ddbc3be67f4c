package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
)

// serveSettings are the flags of serve.
type serveSettings struct {
	listen, store, namespace, sync string
	rootTokenFile                  string
	tlsCert, tlsKey                string
	logLevel                       string
	lanes, waitReplicas            int
	roles                          []string
	drain                          time.Duration

	rootToken string // from MILLRACE_ROOT_TOKEN or the file
}

// syncInterval is how often --sync interval syncs.
const syncInterval = 100 * time.Millisecond

func newServe() *cobra.Command {
	s := &serveSettings{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: "Run the server: the HTTP API and the agents that keep the store moving.\n\n" +
			"Every flag can also be set as MILLRACE_NAME, as in MILLRACE_STORE. The root token\n" +
			"comes from MILLRACE_ROOT_TOKEN or --root-token-file; without one the server\n" +
			"listens on loopback addresses only.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.complete(); err != nil {
				return &usageError{err}
			}
			return s.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:7070", "address to listen on")
	f.StringVar(&s.store, "store", "embedded:./millrace-data", "embedded:DIR, memory:, redis://HOST:PORT, redis-sentinel://…, redis-cluster://…")
	f.IntVar(&s.lanes, "lanes", 0, "lanes of a store that is created; 0 for the engine's default")
	f.StringVar(&s.namespace, "namespace", millrace.DefaultNamespace, "prefix of every key and channel")
	f.StringSliceVar(&s.roles, "roles", nil, "web, deliver, monitor; all of them if empty")
	f.StringVar(&s.rootTokenFile, "root-token-file", "", "file that holds the root token")
	f.StringVar(&s.sync, "sync", "always", "always: answers wait for the disk; interval: the disk follows within 100 ms")
	f.IntVar(&s.waitReplicas, "wait-replicas", 0, "Redis replicas that must have a commit before it is answered")
	f.StringVar(&s.tlsCert, "tls-cert", "", "certificate file, for HTTPS")
	f.StringVar(&s.tlsKey, "tls-key", "", "key file of the certificate")
	f.DurationVar(&s.drain, "drain", 25*time.Second, "how long requests may take to finish after SIGTERM")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error")
	return cmd
}

// complete checks the settings and reads the token; all faults at once.
func (s *serveSettings) complete() error {
	var faults []error
	add := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.sync != "always" && s.sync != "interval" {
		add("--sync must be always or interval")
	}
	if s.lanes != 0 && !millrace.ValidLanes(s.lanes) {
		add("--lanes must be a power of two up to %d", millrace.MaxLanes)
	}
	if m := millrace.NameFault(s.namespace); m != "" {
		add("--namespace %s", m)
	}
	if s.waitReplicas < 0 {
		add("--wait-replicas must not be negative")
	}
	if (s.tlsCert == "") != (s.tlsKey == "") {
		add("--tls-cert and --tls-key go together")
	}
	if s.drain < 0 {
		add("--drain must not be negative")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		add("--log-level must be debug, info, warn or error")
	}
	if err := s.readToken(); err != nil {
		faults = append(faults, err)
	}
	if s.rootToken == "" && !loopback(s.listen) {
		add("--listen must be a loopback address without a root token: set MILLRACE_ROOT_TOKEN or --root-token-file")
	}
	return errors.Join(faults...)
}

func (s *serveSettings) readToken() error {
	s.rootToken = os.Getenv("MILLRACE_ROOT_TOKEN")
	if s.rootTokenFile == "" {
		return nil
	}
	text, err := os.ReadFile(s.rootTokenFile)
	if err != nil {
		return fmt.Errorf("--root-token-file: %w", err)
	}
	s.rootToken = strings.TrimSpace(string(text))
	if s.rootToken == "" {
		return errors.New("--root-token-file: the file is empty")
	}
	return nil
}

// loopback reports whether an address to listen on is reached from this machine only.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// serve runs the server until ctx ends, then drains and stops it.
func (s *serveSettings) serve(ctx context.Context, stdout, stderr io.Writer) error {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.logLevel)) // complete has checked it
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	b, err := broker.Open(ctx, s.store, s.brokerOptions(log))
	if err != nil {
		return errors.Join(fmt.Errorf("open the store: %w", err), listener.Close())
	}
	server := &http.Server{
		Handler:           httpapi.Handler(b, s.handlerOptions(log)),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.accept(server, listener) }()
	s.welcome(ctx, stdout, b, listener.Addr())
	select {
	case err = <-failed:
	case <-ctx.Done():
		log.Info("stopping", "drain", s.drain)
	}
	return errors.Join(err, s.stop(server, b))
}

func (s *serveSettings) brokerOptions(log *slog.Logger) broker.Options {
	o := broker.Options{Roles: s.roles, Version: version, Logger: log, Engine: millrace.EngineOptions{
		Lanes: s.lanes, Namespace: s.namespace, WaitReplicas: s.waitReplicas, Logger: log,
	}}
	if s.sync == "interval" {
		o.Engine.SyncInterval = syncInterval
	}
	return o
}

// handlerOptions lets a node without the web role answer for its health alone.
func (s *serveSettings) handlerOptions(log *slog.Logger) httpapi.Options {
	web := len(s.roles) == 0 || slices.Contains(s.roles, broker.RoleWeb)
	return httpapi.Options{RootToken: s.rootToken, HealthOnly: !web, Version: version, Logger: log}
}

func (s *serveSettings) accept(server *http.Server, listener net.Listener) error {
	if s.tlsCert != "" {
		return server.ServeTLS(listener, s.tlsCert, s.tlsKey)
	}
	return server.Serve(listener)
}

// stop fails readiness first, lets requests finish within the drain time, then closes the store.
func (s *serveSettings) stop(server *http.Server, b *broker.Broker) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.drain)
	defer cancel()
	b.Drain()
	shut := server.Shutdown(ctx)
	if shut != nil {
		shut = errors.Join(fmt.Errorf("requests were cut off: %w", shut), server.Close())
	}
	return errors.Join(shut, b.Close(ctx))
}

// welcome says what runs and what to try.
func (s *serveSettings) welcome(ctx context.Context, w io.Writer, b *broker.Broker, addr net.Addr) {
	scheme := "http"
	if s.tlsCert != "" {
		scheme = "https"
	}
	url := scheme + "://" + addr.String()
	stats, err := b.Stats(ctx)
	if err != nil {
		return // the log says what is wrong with the store
	}
	fmt.Fprintf(w, "Millrace %s on %s (engine %s, durability %s, lanes %d)\n", version, url, stats.Engine, stats.Durability, stats.Lanes)
	fmt.Fprint(w, "\nTry, in another terminal:\n"+
		"  millrace queue create emails --match ':orders:'\n"+
		"  millrace publish orders --type created --tenant acme --data '{\"n\":1}'\n"+
		"  millrace queue lease emails\n"+
		"  curl -s "+url+"/v1/stats\n\n")
}
