// Package enginetest is the conformance suite of the storage engines: an
// ordinary package that takes an opener and runs every promise of the contract
// against it, one named test per promise, without feature flags. A difference
// between two engines is a bug in one of them or a hole in this suite.
//
// Beside the named promises it holds a naive model of the whole contract
// (model.go), random operations on engine and model side by side (random.go),
// judges of fair turns (turns.go), weighted shares (judge.go) and the order of
// keys (lines.go), a load that writes down what was acknowledged
// and an audit that judges the store by it after a fault (load.go, ledger.go,
// audit.go, crash.go, full.go), and benchmark bodies for every engine (bench.go).
package enginetest
