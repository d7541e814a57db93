// Package web serves an engine over HTTP: its state as JSON, its streams from any offset as NDJSON or
// server-sent events, its metrics for Prometheus, and a page on which a person watches all of it.
//
//	GET /                                 the page
//	GET /healthz, /readyz                 200 when the process is up; when the log answers
//	GET /metrics                          Prometheus text
//	GET /v1/status                        version, addresses, and every topic
//	GET /v1/topics/TOPIC                  one topic: bounds of log and lake, table, tiering, newest commits
//	GET /v1/topics/TOPIC/records?from=... the stream, in the forms of `ledgerlake read`
//
// A stream of records takes from, until, partition, columns, limit and follow, as the flags of `ledgerlake read`
// do, and is as true as reader.Cursor (I4). It ends with the trailers Ledgerlake-Token, which names the place to
// go on from, and Ledgerlake-Error when it could not be finished; a client that sees neither was cut off. The trailer
// Ledgerlake-Lost is the number of offsets before the end that neither table nor log has, and is not there when there are
// none. With gaps=true each run of offsets without a row is a line before the rows of its batch,
// {"_gap":{"topic":...,"partition":0,"from":20,"to":40,"reason":"lost: ..."}}, whatever the reason. As
// server-sent events every batch carries its token as event id, so that a browser that lost its connection goes on
// where it was.
//
// Everything is read only. There is no authentication: a server on a loopback address answers only requests
// that name a loopback host, so that a page of another site cannot reach it through DNS. All is safe for concurrent
// use; the number of streams is bounded, and a client that takes nothing for WriteTimeout is cut off.
package web
