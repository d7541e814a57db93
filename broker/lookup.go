package broker

import "github.com/ledgerlake/ledgerlake/record"

// FirstAt finds the first offset of a partition at or after a time, where its first part is in a table and the rest in a log.
// inTable looks through the table as it is when it is called, and says false when it has none; inLog looks through the log,
// and gives its end when it has none.
//
// The table is asked again behind the log: what was tiered meanwhile may have left the log before that was asked (I4).
func FirstAt(inTable func() (record.Offset, bool, error), inLog func() (record.Offset, error)) (record.Offset, error) {
	if o, ok, err := inTable(); ok || err != nil {
		return o, err
	}
	o, err := inLog()
	if err != nil {
		return o, err
	}
	if tiered, ok, err := inTable(); err != nil || ok && tiered < o {
		return tiered, err
	}
	return o, nil
}
