// Package scram is the server's side of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) and the file of users
// that it checks against: a password is kept only as a salted credential, and a peer cannot tell an unknown user
// from a wrong password, neither by what is answered nor by how long it takes (where each user has credentials of
// both mechanisms with the usual number of iterations, which is what Salted and passwords in clear give).
//
// PLAIN is checked against the same credentials. Channel binding, authorization as somebody else and SASLprep are
// not supported: names and passwords are compared as the bytes that came, as Kafka does.
//
// Users may be used by several goroutines, a Server by one. Input comes from strangers: it is never trusted for a
// size, and every fault in it is ErrAuth or ErrMessage (I8). Nothing is written; there is no crash behaviour.
package scram
