package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/webhook"
)

// listenFlags are the flags of subscription listen.
type listenFlags struct {
	listen  string
	secrets []string
	status  int
}

func newSubscriptionListen() *cobra.Command {
	l := &listenFlags{}
	cmd := &cobra.Command{
		Use:   "listen",
		Short: "Be a receiver on this machine: verify and print what arrives",
		Long: "Be a receiver on this machine: verify each request with the secret and print it. The\n" +
			"server must be allowed to call it: millrace serve --allow-callbacks-to 127.0.0.0/8",
		Example: "  millrace subscription listen --secret whsec_… --listen 127.0.0.1:7080",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			return l.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&l.listen, "listen", "127.0.0.1:7080", "address to listen on")
	f.StringSliceVar(&l.secrets, "secret", nil, "whsec_… to verify with; may be repeated; without one nothing is verified")
	f.IntVar(&l.status, "status", http.StatusNoContent, "what to answer, to play a receiver that fails")
	return cmd
}

func (l *listenFlags) check() error {
	for _, s := range l.secrets {
		if m := webhook.SecretFault(s); m != "" {
			return usagef("--secret %s", m)
		}
	}
	if l.status < 200 || l.status > 599 {
		return usagef("--status must be between 200 and 599")
	}
	return nil
}

func (l *listenFlags) run(ctx context.Context, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintf(out, "listening on http://%s\n", listener.Addr())
	var one sync.Mutex // one request is printed at a time
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one.Lock()
		defer one.Unlock()
		l.receive(w, r, out)
	})}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = server.Close()
		<-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// receive prints one request and answers it.
func (l *listenFlags) receive(w http.ResponseWriter, r *http.Request, out io.Writer) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 2*millrace.MaxBatchBytes))
	if err != nil {
		http.Error(w, "the body did not arrive", http.StatusBadRequest)
		return
	}
	verified := "not verified: no --secret"
	if len(l.secrets) > 0 {
		if err := webhook.Verify(r.Header, body, l.secrets...); err != nil {
			fmt.Fprintf(out, "refused: %v\n", err)
			http.Error(w, "the signature is not right", http.StatusUnauthorized)
			return
		}
		verified = "verified"
	}
	fmt.Fprintf(out, "%s batch %s, attempt %s of subscription %s, %s, answered %d\n  %s\n", time.Now().Format(time.TimeOnly),
		shown(r.Header.Get(webhook.HeaderID)), shown(r.Header.Get(webhook.HeaderAttempt)), shown(r.Header.Get(webhook.HeaderSubscription)), verified, l.status, printable(body))
	w.WriteHeader(l.status)
}

// printable is a body without what could play with a terminal.
func printable(body []byte) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, string(body))
}
