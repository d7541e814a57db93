package record

import "errors"

// errEnough ends a Scan that has found what it looked for.
var errEnough = errors.New("enough")

// FirstAt gives the first record of a batch at or after both an offset and a time in ms, with its timestamp; offset -1 where
// there is none. Like Scan it holds none of the records (see ScanMemory), and does not verify the CRC.
func FirstAt(b Batch, from Offset, ms int64) (o Offset, ts int64, err error) {
	o, ts = -1, -1
	if b.LogAppendTime() && b.MaxTimestamp < ms {
		return o, ts, nil
	}
	err = Scan(b, 0, func(s Shape) error {
		if at := b.BaseOffset + Offset(s.Delta); at >= from && s.Timestamp >= ms {
			o, ts = at, s.Timestamp
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return o, ts, err
}
