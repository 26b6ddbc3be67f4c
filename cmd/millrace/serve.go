package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/httpapi"
)

// serveSettings are the settings of serve, ready for use.
type serveSettings struct {
	listen, store, namespace string
	rootToken                string
	tlsCert, tlsKey          string
	logLevel                 slog.Level
	lanes, waitReplicas      int
	maxBytes                 int
	highWater, lowWater      int
	roles                    []string
	drain                    time.Duration
	syncInterval             time.Duration
	observe                  observeSettings

	redisPublish *bool          // --redis-publish; nil leaves it to the engine
	callbacks    []netip.Prefix // --allow-callbacks-to
}

// syncInterval is how often --sync interval syncs.
const syncInterval = 100 * time.Millisecond

func newServe(r *remote) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: "Run the server: the HTTP API and the agents that keep the store moving.\n\n" +
			"Every flag can also be set as MILLRACE_NAME, as in MILLRACE_STORE, or as a key of\n" +
			"the file that --config names; `millrace config print` shows what counts. The root\n" +
			"token comes from MILLRACE_ROOT_TOKEN or --root-token-file; without one the server\n" +
			"listens on loopback addresses only.",
		Args:        cobra.NoArgs,
		Annotations: map[string]string{ownCheck: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := newServeSettings(r.config)
			if err != nil {
				return &usageError{err}
			}
			return s.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	settingFlags(cmd.Flags(), "serve")
	return cmd
}

// newServeSettings checks the settings of serve, by themselves and together; all
// faults at once.
func newServeSettings(c *config) (*serveSettings, error) {
	faults := []error{c.check("serve")}
	s := &serveSettings{
		listen: c.text("listen"), store: c.text("store"), namespace: c.text("namespace"), rootToken: c.text("root-token"),
		tlsCert: c.text("tls-cert"), tlsKey: c.text("tls-key"),
		lanes: c.number("lanes"), waitReplicas: c.number("wait-replicas"),
		maxBytes: c.number("max-bytes"), highWater: c.number("high-water"), lowWater: c.number("low-water"),
		roles: c.list("roles"), drain: c.span("drain"), redisPublish: c.choice("redis-publish"),
		observe: observeSettings{metricsLog: c.span("metrics-log"), otlpEndpoint: c.text("otlp-endpoint")},
	}
	_ = s.logLevel.UnmarshalText([]byte(c.text("log-level"))) // check tells if it cannot
	for _, network := range c.list("allow-callbacks-to") {
		if p, err := netip.ParsePrefix(network); err == nil {
			s.callbacks = append(s.callbacks, p)
		}
	}
	if c.text("sync") == "interval" {
		s.syncInterval = syncInterval
	}
	faults = append(faults, s.tlsFault(c), s.engineFaults(c))
	if s.lowWater >= s.highWater {
		faults = append(faults, fmt.Errorf("%s must be less than %s", c.values["low-water"].name, c.values["high-water"].name))
	}
	if listenFault(s.listen) == "" && s.rootToken == "" && c.text("root-token-file") == "" && !loopback(s.listen) {
		faults = append(faults, fmt.Errorf("%s must be a loopback address without a root token: set MILLRACE_ROOT_TOKEN or --root-token-file", c.values["listen"].name))
	}
	faults = append(faults, s.observe.faults()...)
	return s, errors.Join(faults...)
}

// tlsFault says why HTTPS could not be served.
func (s *serveSettings) tlsFault(c *config) error {
	switch {
	case s.tlsCert == "" && s.tlsKey == "":
		return nil
	case s.tlsCert == "" || s.tlsKey == "":
		return errors.New("--tls-cert and --tls-key go together")
	}
	if _, err := tls.LoadX509KeyPair(s.tlsCert, s.tlsKey); err != nil {
		return fmt.Errorf("%s and %s: %w", c.values["tls-cert"].name, c.values["tls-key"].name, err)
	}
	return nil
}

// engineFaults are the settings that the store's engine would not obey.
func (s *serveSettings) engineFaults(c *config) error {
	var faults []error
	only := func(name, kind string, wrong bool) {
		if wrong {
			faults = append(faults, fmt.Errorf("%s is for %s only: leave it out, or choose another store", c.values[name].name, kind))
		}
	}
	onRedis := strings.HasPrefix(s.store, "redis")
	only("wait-replicas", "stores in Redis", s.waitReplicas > 0 && !onRedis)
	only("redis-publish", "stores in Redis", s.redisPublish != nil && *s.redisPublish && !onRedis)
	only("sync", "embedded stores", s.syncInterval > 0 && onRedis)
	return errors.Join(faults...)
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
	log := slog.New(httpapi.LogHandler(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: s.logLevel})))
	watch, err := s.observe.start(ctx, log)
	if err != nil {
		return err
	}
	defer watch.stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	b, err := broker.Open(ctx, s.store, watch.broker(s.brokerOptions(log)))
	if err != nil {
		return errors.Join(fmt.Errorf("open the store: %w", err), listener.Close())
	}
	server := &http.Server{
		Handler:           httpapi.Handler(b, watch.api(s.handlerOptions(log))),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	watch.run(b)
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
	return broker.Options{Roles: s.roles, Version: version, AllowCallbacksTo: s.callbacks, Logger: log,
		MaxBytes: int64(s.maxBytes), HighWater: s.highWater, LowWater: s.lowWater,
		Engine: millrace.EngineOptions{
			Lanes: s.lanes, Namespace: s.namespace, WaitReplicas: s.waitReplicas, SyncInterval: s.syncInterval, RedisPublish: s.redisPublish, Logger: log,
		}}
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
