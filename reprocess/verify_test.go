package reprocess_test

import (
	"strings"
	"testing"

	"github.com/ledgerlake/ledgerlake/record"
	"github.com/ledgerlake/ledgerlake/reprocess"
)

// Tables of which nothing was compared are not the same: verify would let a script go on to the swap, or worse, to the end
// of the old job.
func TestVerifyBeforeTheJobIsDone(t *testing.T) {
	r := newRig(t)
	r.send(0, 300)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{Columns: []reprocess.Column{{Name: "n", Value: "n"}}}))
	c, err := j.Verify(t.Context(), r.live, nil)
	if err != nil || c.Same() || !strings.Contains(c.String(), "not done") {
		t.Errorf("before the run: same %t, %v\n%s", c.Same(), err, c)
	}
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err = j.Verify(t.Context(), r.live, nil); err != nil || !c.Same() || c.Rows != 300 {
		t.Errorf("after the run: %+v %v", c, err)
	}
	r.send(300, 400) // the swap catches up with those
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	if c, err = j.Verify(t.Context(), r.live, nil); err != nil || !c.Same() || len(c.Undecided) != 2 {
		t.Errorf("behind the old table: %+v %v", c, err)
	}
}

// A partition that only the old table has is named, and one that came behind the plan is compared once the job has it.
func TestVerifyOfALaterPartition(t *testing.T) {
	r := newRig(t)
	r.send(0, 100)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	j := r.open(r.config(reprocess.Spec{Columns: []reprocess.Column{{Name: "n", Value: "n"}}}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.log.CreatePartitions(t.Context(), topic, 3); err != nil {
		t.Fatal(err)
	}
	r.sendTo(2, 100, 150)
	if err := r.tier(); err != nil {
		t.Fatal(err)
	}
	c, err := j.Verify(t.Context(), r.live, nil)
	if err != nil || c.Same() || c.Undecided[2] != 50 {
		t.Errorf("without the partition: %+v %v", c, err)
	}
	if st, err := j.Status(t.Context()); err != nil || st.Behind[2] != 50 {
		t.Errorf("status says that it is %v behind, %v", st.Behind, err)
	}
	ended := follow(t, j)
	for behind := record.Offset(50); behind > 0; {
		st, err := j.Status(t.Context())
		if err != nil || len(ended) > 0 {
			t.Fatal("the job ended, or has no status", err)
		}
		behind = st.Behind[2]
	}
	if c, err = j.Verify(t.Context(), r.live, nil); err != nil || !c.Same() || c.Rows != 150 {
		t.Errorf("with the partition: %+v %v", c, err)
	}
}

// Strings that are no UTF-8, as names of headers may be, are compared by their bytes.
func TestVerifyOfStringsThatAreNoText(t *testing.T) {
	put := func(r *rig, header string) {
		b := record.NewBuilder(record.None)
		b.Append(1, nil, []byte(`{"n":1}`), []record.Header{{Key: []byte(header), Value: []byte("v")}})
		raw, err := b.Build(0)
		if err == nil {
			_, err = r.log.Append(t.Context(), record.TopicPartition{Topic: topic}, raw)
		}
		if err == nil {
			err = r.tier()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r := newRig(t)
	put(r, "h\xff")
	j := r.open(r.config(reprocess.Spec{}))
	if err := j.Run(t.Context(), reprocess.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if c, err := j.Verify(t.Context(), r.live, nil); err != nil || !c.Same() || c.Rows != 1 {
		t.Errorf("a copy: %s, %v", c, err)
	}
	other := newRig(t)
	put(other, "h\xfe")
	c, err := j.Verify(t.Context(), other.live, nil)
	if err != nil || c.Same() || c.Columns["_headers"] != 1 || !strings.Contains(c.String(), `\udcfe`) {
		t.Errorf("another byte: %s, %v", c, err)
	}
}
