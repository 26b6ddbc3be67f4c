// Resync is a product in miniature: links to repositories, a button that syncs one again, and beside it what became of
// every click and how many failed. The page and the worker keep no state of their own: the status of each sync, its
// history and its counts are the backbone's.
//
//	go run ./examples/resync
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/millrace-dev/millrace"
	"github.com/millrace-dev/millrace/broker"
	"github.com/millrace-dev/millrace/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, pretend)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "resync:", err)
		os.Exit(1)
	}
}

// queue is where clicks wait for a worker.
const queue = "sync"

// run serves the page and works until ctx ends.
func run(ctx context.Context, args []string, out io.Writer, sync syncFunc) (err error) {
	flags := flag.NewFlagSet("resync", flag.ContinueOnError)
	flags.SetOutput(out)
	listen := flags.String("listen", "127.0.0.1:8080", "the address of the page")
	store := flags.String("store", "memory:", "where the backbone keeps its data: memory:, embedded:DIR or redis://HOST")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b, err := broker.Open(ctx, *store, broker.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	spec := millrace.DefaultQueueSpec(":links:")                         // what others publish about links is synced too
	spec.Tracked, spec.MaxAttempts, spec.Lease = true, 3, 10*time.Second // a worker hears of a cancellation at a third of the lease
	if _, _, err := b.Queues().Put(ctx, queue, spec); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	return serve(ctx, listener, b, sync)
}

// serve runs the page and the worker; when one ends, so does the other.
func serve(ctx context.Context, listener net.Listener, b *broker.Broker, sync syncFunc) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{Handler: newPage(b.Operations()), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- server.Serve(listener)
	}()
	err := worker.Consume(ctx, b, queue, handler(sync), worker.Options{Concurrency: 4})
	err = errors.Join(err, server.Shutdown(context.WithoutCancel(ctx)))
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
