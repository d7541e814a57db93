package fsm

// Command is an entry of the replicated log. All of them are of one table.
type Command interface {
	TableName() string
	kind() kind
	encode(w *writer)
}

type kind uint8

const (
	kindOpen kind = iota + 1
	kindLease
	kindBatch
	kindPublished
	kindForeign
)

// Open makes a table known, as it is in the store.
type Open struct {
	Table     string
	Version   int64
	Hash      string // of the version's commit file; empty when it is not in the log any more
	Shape     Shape
	Stamp     int64            // in-commit timestamp of the version, when there is one
	Positions map[string]int64 // app id -> next offset
	// Replace is the version of the base that was found not to be in the store any more; -1: none. The table is
	// then taken as it is now, and what was pending is Lost.
	Replace     int64
	ReplaceHash string
}

// Lease asks for an epoch that is newer than that of every owner of the partitions so far. It fences nobody by
// itself: the first commit with it does.
type Lease struct {
	Table      string
	App        string
	Partitions []int32
	Owner      string // for people
}

// Batch decides one version out of many requests; those that do not fit are refused one by one. When the version decided
// last is still open, they go into that one, and TxnID and Engine are not used.
type Batch struct {
	Table    string
	TxnID    string // unique
	Time     int64  // ms
	Engine   string
	Requests []Request // none: the open version is closed
	// Open leaves the version open: the next Batch adds to it. So requests are decided while the store is busy with the version
	// before, and the store is asked for one version all the same. An open version is never put.
	Open bool
	// Done says first that a version is in the store: one entry of the log, and one sync of each disk, for both. nil: nothing.
	Done *PublishedAt
}

// PublishedAt says that the first pending version is in the store.
type PublishedAt struct {
	Table   string
	Version int64
	TxnID   string
	Hash    string // of the file
}

// Foreign says that the store holds a version of another writer right behind the base.
type Foreign struct {
	Table     string
	Version   int64
	Hash      string
	Stamp     int64
	Positions map[string]int64 // app id -> next offset
	Removed   []Sum            // of canonical paths
	Shape     Shape            // fields that changed; empty strings are as before
	Reshaped  bool             // metadata or protocol are in it
	Blind     bool             // it only adds files, and read nothing to do so
}

// TableName gives the table.
func (c *Open) TableName() string { return c.Table }

// TableName gives the table.
func (c *Lease) TableName() string { return c.Table }

// TableName gives the table.
func (c *Batch) TableName() string { return c.Table }

// TableName gives the table.
func (c *PublishedAt) TableName() string { return c.Table }

// TableName gives the table.
func (c *Foreign) TableName() string { return c.Table }

func (c *Open) kind() kind        { return kindOpen }
func (c *Lease) kind() kind       { return kindLease }
func (c *Batch) kind() kind       { return kindBatch }
func (c *PublishedAt) kind() kind { return kindPublished }
func (c *Foreign) kind() kind     { return kindForeign }
