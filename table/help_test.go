package table

import (
	"bytes"

	"github.com/ledgerlake/ledgerlake/objstore"
)

// listData lists what is in the table's folder itself: the data files.
var listData = objstore.ListOptions{Flat: true}

func bytesReader(b []byte) *bytes.Reader { return bytes.NewReader(b) }
