package decode

// RescuedColumn is the column that takes what no other column takes: see ForTable.
const RescuedColumn = "_rescued"

// WatchUnknown asks for the names of fields that no column takes: see Unknown.
func (d *JSON) WatchUnknown() { d.root.watchAll("") }

func (o *object) watchAll(path string) {
	o.watch, o.path = true, path
	for _, n := range o.fields {
		n.watchAll(path + n.name + ".")
	}
}

func (n *node) watchAll(path string) {
	switch {
	case n.obj != nil:
		n.obj.watchAll(path)
	case n.list != nil:
		n.elem.watchAll(path)
	}
}

// Unknown gives the paths of fields that had a value and no column to take it, each once, and forgets them. Only rows
// tell of fields: not a value that was refused, nor a row that was taken back before Unknown was called. Beyond some
// hundred of one object no more are told.
func (d *JSON) Unknown() []string {
	if len(d.unknown) == 0 {
		return nil
	}
	out := d.unknown
	d.unknown, d.strangers = nil, d.strangers[:0]
	return out
}

// untell takes back what a message told of that is no row after all: the next one with such fields tells of them.
func (d *JSON) untell() {
	for _, k := range d.strangers {
		k.news = true
	}
	d.unknown, d.strangers = d.unknown[:0], d.strangers[:0]
}

// stranger is called for a field that no column takes.
func (d *JSON) stranger(o *object, k *key, value []byte) {
	if k.news && telling(value) {
		k.news = false
		d.unknown, d.strangers = append(d.unknown, o.path+k.name), append(d.strangers, k)
	}
	if d.rescue == nil || o != &d.root || k.mute || k.mark != nil {
		return
	}
	sep := byte(',')
	if len(d.rescued) == 0 {
		sep = '{'
	}
	d.rescued = append(d.rescued, sep)
	d.rescued = AppendString(d.rescued, k.name)
	d.rescued = append(append(d.rescued, ':'), value...)
}

// telling says whether a value tells the type of its field: not null and not an empty object or array.
func telling(value []byte) bool {
	if c := value[0]; c != '{' && c != '[' {
		return c != 'n'
	}
	return skipSpace(value, 1) < len(value)-1
}

// startRescue makes the decoder keep what no column takes.
func (d *JSON) startRescue() {
	d.root.watch = true
	d.root.find([]byte(RescuedColumn)).node = nil // what messages have under the name is kept like the rest
	if t, err := d.Target(RescuedColumn); err == nil {
		d.rescue = t
	}
}

// keepRescued fills the column in the row that was just made.
func (d *JSON) keepRescued() error {
	d.rescued = append(d.rescued, '}')
	if err := d.Set(d.rescue, d.rescued); err != nil {
		d.Truncate(d.rows - 1)
		return err
	}
	return nil
}
