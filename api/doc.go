// Package api is the wire: how requests, answers and errors look as JSON. The
// server and the client share it, so that what one writes the other reads.
//
// Requests are decoded strictly and all their faults are reported at once.
// Answers are decoded leniently: a client ignores members it does not know.
package api
