package deltalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// parallelParse is the size from which a commit is parsed by several goroutines.
const parallelParse = 512 << 10

// parseCommit reads the newline-separated actions of a commit, a compaction or a JSON checkpoint. Unknown
// actions and fields are ignored; anything that is not JSON is an error with its line, never "the end of the log".
func parseCommit(data []byte, file string) (*actions, error) {
	n := min(runtime.GOMAXPROCS(0), len(data)/parallelParse)
	if n < 2 {
		return parseLines(data, file, 1)
	}
	pieces := splitLines(data, n)
	parts := make([]*actions, len(pieces))
	errs := make([]error, len(pieces))
	var wg sync.WaitGroup
	line := 1
	for i, p := range pieces {
		first := line
		wg.Go(func() { parts[i], errs[i] = parseLines(p, file, first) })
		line += bytes.Count(p, []byte{'\n'})
	}
	wg.Wait()
	for _, err := range errs { // the first broken line is the one to report
		if err != nil {
			return nil, err
		}
	}
	out := parts[0]
	for _, p := range parts[1:] {
		if err := out.join(p); err != nil {
			return nil, &CorruptError{File: file, Err: err}
		}
	}
	return out, nil
}

// splitLines cuts data into about n pieces that end with whole lines.
func splitLines(data []byte, n int) [][]byte {
	var out [][]byte
	for ; n > 1; n-- {
		at := len(data) / n
		i := bytes.IndexByte(data[at:], '\n')
		if i < 0 {
			break
		}
		out = append(out, data[:at+i+1])
		data = data[at+i+1:]
	}
	return append(out, data)
}

// join appends the actions of the next piece of the same file.
func (a *actions) join(b *actions) error {
	if err := a.joinNamed(b); err != nil {
		return err
	}
	for _, n := range b.addsBefore {
		a.addsBefore = append(a.addsBefore, n+len(a.adds))
	}
	a.adds = append(a.adds, b.adds...)
	a.removes = append(a.removes, b.removes...)
	return nil
}

// joinNamed appends all but the adds and removes of the next piece of the same file.
func (a *actions) joinNamed(b *actions) error {
	if a.protocol != nil && b.protocol != nil {
		return errors.New("second protocol action in one commit")
	}
	if a.metadata != nil && b.metadata != nil {
		return errors.New("second metaData action in one commit")
	}
	if b.protocol != nil {
		a.protocol = b.protocol
	}
	if b.metadata != nil {
		a.metadata = b.metadata
	}
	if a.info == nil {
		a.info = b.info
	}
	a.txns = append(a.txns, b.txns...)
	a.domains = append(a.domains, b.domains...)
	a.sidecars = append(a.sidecars, b.sidecars...)
	a.v2 = a.v2 || b.v2
	return nil
}

// reset empties a for new actions, keeping the room for files and their text.
func (a *actions) reset() {
	clear(a.adds) // let go of what they point to
	clear(a.removes)
	clear(a.tagTexts)
	*a = actions{adds: a.adds[:0], removes: a.removes[:0], addsBefore: a.addsBefore[:0], tagTexts: a.tagTexts[:0], text: a.text.again()}
}

func parseLines(data []byte, file string, line int) (*actions, error) {
	p := &parser{a: &actions{}, in: newInterner()}
	if err := p.lines(data, file, line); err != nil {
		return nil, err
	}
	return p.a, nil
}

// lines adds the actions of data, which begins with the given line of a file.
func (p *parser) lines(data []byte, file string, line int) error {
	// Most lines of a large commit are adds. The second bound keeps short lines from reserving much memory.
	if n := min(bytes.Count(data, []byte{'\n'}), len(data)/100); n > 16 && cap(p.a.adds) < n {
		p.a.adds = make([]Add, 0, n)
	}
	for ; len(data) > 0; line++ {
		row := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			row, data = data[:i], data[i+1:]
		} else {
			data = nil
		}
		if p.plainAdd(row) {
			continue
		}
		if err := p.line(row); err != nil {
			return &CorruptError{File: file, Line: line, Err: err}
		}
	}
	return nil
}

// parser reads action lines. Adds and removes, of which there may be millions, are scanned by hand; the other
// actions go through encoding/json.
type parser struct {
	scanner
	a        *actions
	in       *interner
	slab     slab
	seen     bool // the line has an action that this package knows
	tagTexts bool // tags of adds are kept as text, in actions.tagTexts
}

func (p *parser) line(row []byte) error {
	p.b, p.i, p.depth, p.seen = row, 0, 0, false
	if p.peek(); p.i == len(p.b) {
		return nil // a blank line
	}
	if err := p.object(p.action); err != nil {
		return err
	}
	if p.space(); p.i < len(p.b) {
		return p.fail("the end of the line")
	}
	return nil
}

func (p *parser) action(name []byte) error {
	if null, err := p.null(); null || err != nil {
		return err
	}
	switch string(name) {
	case "add", "remove", "txn", "metaData", "protocol", "commitInfo", "domainMetadata", "sidecar", "checkpointMetadata", "cdc":
		if p.seen {
			return errors.New("two actions in one line")
		}
		p.seen = true
	}
	switch string(name) {
	case "add":
		return p.addAction()
	case "remove":
		return p.removeAction()
	case "txn":
		return p.txnAction()
	}
	kind := string(name)
	raw, err := p.raw()
	if err != nil {
		return err
	}
	return p.a.rare(kind, raw)
}

// rare takes the actions of which a commit has few.
func (a *actions) rare(kind string, raw []byte) error {
	switch kind {
	case "metaData":
		if a.metadata != nil {
			return errors.New("second metaData action in one commit")
		}
		a.metadata = &Metadata{}
		return json.Unmarshal(raw, a.metadata)
	case "protocol":
		if a.protocol != nil {
			return errors.New("second protocol action in one commit")
		}
		a.protocol = &Protocol{}
		return json.Unmarshal(raw, a.protocol)
	case "commitInfo":
		var info CommitInfo
		if err := json.Unmarshal(raw, &info); err != nil {
			return err
		}
		if a.info == nil {
			a.info = &info
		}
	case "domainMetadata":
		var d DomainMetadata
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		a.domains = append(a.domains, d)
	case "sidecar":
		var s Sidecar
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
		if s.Path == "" {
			return errors.New("sidecar without path")
		}
		a.sidecars = append(a.sidecars, s)
	case "checkpointMetadata":
		a.v2 = true
	}
	return nil
}

// addSlot appends an empty add, to be filled in place and then checked.
func (a *actions) addSlot() *Add {
	a.adds = append(a.adds, Add{})
	return &a.adds[len(a.adds)-1]
}

func checkAdd(x *Add) error {
	if x.Path == "" {
		return errors.New("add without path")
	}
	if x.Size < 0 {
		return fmt.Errorf("add with size %d", x.Size)
	}
	return nil
}

func (a *actions) remove(r *Remove) error {
	if r.Path == "" {
		return errors.New("remove without path")
	}
	a.removes = append(a.removes, *r)
	a.addsBefore = append(a.addsBefore, len(a.adds))
	return nil
}

// checkDuplicates refuses what the protocol forbids within one version: the meaning would depend on the reader.
func (a *actions) checkDuplicates() error {
	if err := a.checkNamed(); err != nil {
		return err
	}
	if key, twice := repeated(a.removes, func(r *Remove) string { return fileKey(r.Path, r.DeletionVector) }); twice {
		return fmt.Errorf("second remove of %q in one commit", key)
	}
	return nil
}

// checkNamed is checkDuplicates without the files, which a replay checks as it goes.
func (a *actions) checkNamed() error {
	if id, twice := repeated(a.txns, func(t *Txn) string { return t.AppID }); twice {
		return fmt.Errorf("second txn of application %q in one commit", id)
	}
	if name, twice := repeated(a.domains, func(d *DomainMetadata) string { return d.Domain }); twice {
		return fmt.Errorf("second domainMetadata of %q in one commit", name)
	}
	return nil
}

func repeated[T any](items []T, key func(*T) string) (string, bool) {
	if len(items) < 2 {
		return "", false
	}
	seen := make(map[string]bool, len(items))
	for i := range items {
		k := key(&items[i])
		if seen[k] {
			return k, true
		}
		seen[k] = true
	}
	return "", false
}

// encodeCommit writes actions as a commit file, commitInfo first.
func encodeCommit(info map[string]any, a *actions) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	var err error
	put := func(name string, v any) {
		if err == nil {
			err = enc.Encode(map[string]any{name: v})
		}
	}
	put("commitInfo", info)
	if a.protocol != nil {
		put("protocol", a.protocol)
	}
	if a.metadata != nil {
		put("metaData", a.metadata)
	}
	for i := range a.txns {
		put("txn", &a.txns[i])
	}
	for i := range a.domains {
		put("domainMetadata", &a.domains[i])
	}
	for i := range a.removes {
		r := a.removes[i]
		if r.ExtendedFileMetadata != nil && *r.ExtendedFileMetadata && r.PartitionValues == nil {
			r.PartitionValues = noValues() // promised by the flag
		}
		put("remove", &r)
	}
	for i := range a.adds {
		x := a.adds[i]
		if x.PartitionValues == nil {
			x.PartitionValues = noValues()
		}
		put("add", &x)
	}
	if err != nil {
		return nil, fmt.Errorf("encode commit: %w", err)
	}
	return b.Bytes(), nil
}
