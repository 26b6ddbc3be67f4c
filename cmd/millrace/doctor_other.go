//go:build !unix

package main

// openFilesLimit is not known here.
func openFilesLimit() (n uint64, known bool) { return 0, false }
