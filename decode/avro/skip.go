package avro

// skip passes over a value of which no column wants anything. Records are skipped by calls, so that recursive ones
// end: their code is placed once, behind the program. What never has a byte has no code, so each call takes some.
func (c *compiler) skip(n *node) {
	if c.sizes.atLeast(n) == 0 {
		return
	}
	switch n.kind {
	case kindBoolean:
		c.emit(instr{op: opSkip, a: 1})
	case kindFloat:
		c.emit(instr{op: opSkip, a: 4})
	case kindDouble:
		c.emit(instr{op: opSkip, a: 8})
	case kindFixed:
		c.emit(instr{op: opSkip, a: n.size})
	case kindInt, kindLong, kindEnum:
		c.emit(instr{op: opSkipInt})
	case kindBytes, kindString:
		c.emit(instr{op: opSkipBytes})
	case kindArray, kindMap:
		i := instr{op: opSkipArray, least: c.sizes.atLeast(n.elem)}
		if n.kind == kindMap {
			i.op, i.least = opSkipMap, i.least+1
		}
		at := c.emit(i)
		c.skip(n.elem)
		c.steps[at].a = len(c.steps)
	case kindUnion:
		at := c.emit(instr{op: opUnion})
		var ends []int
		for _, b := range n.branches {
			c.steps[at].jumps = append(c.steps[at].jumps, len(c.steps))
			c.skip(b)
			ends = append(ends, c.emit(instr{op: opJump}))
		}
		for _, e := range ends {
			c.steps[e].a = len(c.steps)
		}
	case kindRecord:
		if _, placed := c.skips[n]; !placed {
			c.skips[n] = 0
			c.queued = append(c.queued, n)
		}
		c.calls = append(c.calls, c.emit(instr{op: opCall, callee: n}))
	}
}

func (c *compiler) skipFields(n *node) {
	for _, f := range n.fields {
		c.skip(f.typ)
	}
}
