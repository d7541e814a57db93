package bench

// committerCaseList names the cases of scenario committer on a machine that has every store.
func committerCaseList() (out []Case) {
	s3 := &commitStore{name: "versitygw", delayed: &commitStore{}}
	for _, s := range []*commitStore{{name: "folder"}, s3, {name: "versitygw and dynalite", lock: true}} {
		for _, side := range commitSides(s) {
			out = append(out, Case{s.name + ": " + side.name, "", true})
		}
	}
	return out
}
