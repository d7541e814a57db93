// Package ingest holds what `ledgerlake ingest` adds to tiering: it takes over from kafka-delta-ingest (its start
// positions and its librdkafka settings), runs many streams side by side where one that fails stops no other (I7), and
// shows their state to those who operate them.
//
// Concurrency: a Supervisor may be used by many goroutines. The other functions keep no state.
//
// Errors: what cannot be taken over is refused by its name, with what to do instead (I8).
//
// Crashes: start positions are commits of the table before the first row. Stopped before one, the next start makes it;
// stopped after it, the next start finds it and leaves it alone.
package ingest
