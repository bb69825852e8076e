// Package leafseal is a client of a Leafseal engine: it encrypts and decrypts values, JSON documents and files over pooled connections with
// mutual TLS.
//
// Create one [Client] for each process and share it between goroutines. Each call takes a context; when the context is done, the call returns
// and the engine is asked to stop. Errors are of type [*Error].
package leafseal
