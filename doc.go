// Package millrace holds the words of the event backbone and the contract that
// its storage engines fulfil: events, queues, definitions, and the atomic
// transitions between their states. It does no I/O, starts no goroutine and
// reads no clock.
//
// To run a backbone inside a program, open one with package broker; to talk to
// one over HTTP, use package client; to handle messages from either, use
// package worker.
package millrace
