package stages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"evalstream"
	"evalstream/stages/metric"
)

// view is one group in one window, put together from its cells.
type view struct {
	sheet  *sheet
	reader *reader
	values []string // of the grouping's fields; nil for the group of small groups
	other  bool
	group  uint32
	pane   int64 // first
	window evalstream.Window
	sum    cell
	units  int64 // all statuses, to rank groups by

	touched bool // since it was last due
}

// publish emits results: of the windows that were touched or have closed since the
// last call, or of all, as final.
func (b *book) publish(out *evalstream.Out, final bool) error {
	if !b.scored {
		return nil // nobody knows yet what the metrics are
	}
	var results []*evalstream.Result
	for i := range b.sheets {
		s := &b.sheets[i]
		for k := range s.readers {
			views, withdrawn := b.views(s, &s.readers[k], final)
			var err error
			if b.options.Over != "" {
				results, err = b.readOver(results, &s.readers[k], views, withdrawn, final)
			} else {
				results, err = b.read(results, views, final)
			}
			if err != nil {
				return err
			}
			if b.options.Over == "" {
				results = b.withdraw(results, withdrawn)
			}
		}
		s.clean()
	}
	b.published = true
	emitResults(out, results)
	return nil
}

// free lets go of the windows that publish has said to be final. gone is told of their
// cells, by sheet.
func (b *book) free(gone func(sheet int, c *cell)) {
	if b.settled <= b.freed {
		return
	}
	b.freed = b.settled
	for i := range b.sheets {
		b.sheets[i].free(b.freed, func(c *cell) { gone(i, c) })
	}
}

// emitResults emits results by metric, group and window.
func emitResults(out *evalstream.Out, results []*evalstream.Result) {
	type keyed struct {
		key []byte
		r   *evalstream.Result
	}
	ks := make([]keyed, len(results))
	var keys []byte
	for i, r := range results {
		from := len(keys)
		keys = appendResultKey(keys, r)
		ks[i] = keyed{keys[from:len(keys):len(keys)], r}
	}
	slices.SortFunc(ks, func(a, b keyed) int { return slices.Compare(a.key, b.key) })
	for _, k := range ks {
		out.Emit(evalstream.Record{Body: k.r, Time: evalstream.NoTime})
	}
}

func appendResultKey(dst []byte, r *evalstream.Result) []byte {
	dst = append(append(dst, r.Metric...), 0)
	for _, s := range r.By {
		dst = append(append(append(append(dst, s.Name...), 1), s.Value...), 0)
	}
	dst = append(dst, 0)
	if r.Window.All {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	for _, t := range [2]evalstream.Time{r.Window.Start, r.Window.End} {
		u := uint64(t) ^ 1<<63
		for shift := 56; shift >= 0; shift -= 8 {
			dst = append(dst, byte(u>>shift))
		}
	}
	return dst
}

// views puts together the windows that are due. withdrawn are windows that were
// published and hold nothing any more.
func (b *book) views(s *sheet, r *reader, final bool) (due, withdrawn []view) {
	// A mean over groups, or what is left of small ones, needs those that did not change too.
	all := final || b.folds(s) || b.options.Over != ""
	cells := s.dirty
	if all {
		cells = s.order
	}
	seen := make(map[cellKey]bool, len(cells))
	add := func(group uint32, pane int64) {
		key := cellKey{group, pane}
		if seen[key] || !s.window.All && s.window.from(pane).End <= b.freed {
			return
		}
		seen[key] = true
		v := viewOf(s, r, group, pane)
		if v.sum.empty() && b.missingOf(&v) <= 0 {
			if b.mayStand(r, key) {
				withdrawn = append(withdrawn, v)
			}
			return
		}
		due = append(due, v)
	}
	for _, c := range cells {
		for k := range s.window.panes() {
			add(c.group, c.pane-k)
		}
	}
	if !s.window.All && max(b.watermark, b.settled) != evalstream.NoTime {
		for _, c := range s.order {
			for k := range s.window.panes() {
				if b.turns(s.window.from(c.pane-k).End, r.told[cellKey{c.group, c.pane - k}]) {
					add(c.group, c.pane-k)
				}
			}
		}
	}
	return b.fold(s, r, due, withdrawn)
}

// turns says that a window which ends by then has closed or become final since it was
// told, if it was.
func (b *book) turns(end evalstream.Time, t *told) bool {
	return end <= b.watermark && (t == nil || !t.closed) || end <= b.settled && (t == nil || !t.final)
}

// viewOf adds up the cells of one window. Most windows are one cell.
func viewOf(s *sheet, r *reader, group uint32, pane int64) view {
	v := view{sheet: s, reader: r, group: group, pane: pane, window: s.window.from(pane), values: splitFields(s.groups.name(group))}
	if n := s.window.panes(); n > 1 {
		for k := range n {
			if c := s.cells[cellKey{group, pane + k}]; c != nil {
				v.sum.merge(c, 1)
				v.touched = v.touched || c.dirty
			}
		}
	} else if c := s.cells[cellKey{group, pane}]; c != nil {
		v.sum, v.touched = *c, c.dirty
	}
	v.units = v.sum.n + v.sum.pending + v.sum.unjudged + v.sum.expired
	return v
}

// folds says that the sheet has more groups than are published.
func (b *book) folds(s *sheet) bool {
	return b.options.MaxGroups > 0 && len(s.recent) > b.options.MaxGroups
}

// fold puts the smallest groups of each window together: by units, then by values,
// so it does not depend on the order in which they came. A group that was published
// on its own before is withdrawn. One that is itself named as the rest is part of it,
// so that no result comes twice.
func (b *book) fold(s *sheet, r *reader, views, withdrawn []view) (kept, gone []view) {
	if !b.folds(s) {
		return views, withdrawn
	}
	slices.SortFunc(views, func(x, y view) int {
		return cmp.Or(cmp.Compare(x.pane, y.pane), namedOther(x.values)-namedOther(y.values), cmp.Compare(y.units, x.units), slices.Compare(x.values, y.values))
	})
	rests := map[int64]bool{}
	for from := 0; from < len(views); {
		to := from
		for to < len(views) && views[to].pane == views[from].pane {
			to++
		}
		n := min(b.options.MaxGroups, to-from)
		kept = append(kept, views[from:from+n]...)
		if from+n < to {
			rest := restOf(s, r, views[from].pane)
			for i := from + n; i < to; i++ {
				if b.mayStand(r, cellKey{views[i].group, views[i].pane}) && namedOther(views[i].values) == 0 {
					gone := views[i]
					gone.sum = cell{}
					withdrawn = append(withdrawn, gone)
				}
				rest.sum.merge(&views[i].sum, 1)
				rest.touched = rest.touched || views[i].touched
			}
			kept = append(kept, rest)
			rests[rest.pane] = true
		}
		from = to
	}
	for _, v := range slices.Concat(views, withdrawn) {
		if !rests[v.pane] && b.mayStand(r, cellKey{noRelation, v.pane}) {
			rests[v.pane] = true
			withdrawn = append(withdrawn, restOf(s, r, v.pane))
		}
	}
	return kept, withdrawn
}

// restOf is the group of small groups of a window, with nothing in it yet.
func restOf(s *sheet, r *reader, pane int64) view {
	return view{sheet: s, reader: r, other: true, group: noRelation, pane: pane, window: s.window.from(pane)}
}

// namedOther is 1 for a group whose values are all as those of the rest, else 0.
func namedOther(values []string) int {
	if len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return v != OtherGroup }) {
		return 0
	}
	return 1
}

// by is the view's group as it is published.
func (b *book) by(v *view) []evalstream.Slice {
	g := v.reader.grouping
	by := make([]evalstream.Slice, 0, len(g.names))
	f := 0
	for _, name := range g.names {
		value := OtherGroup
		if name == relationField {
			value = ""
		} else if !v.other {
			value = v.values[f]
			f++
		}
		by = append(by, evalstream.Slice{Name: name, Value: value})
	}
	if b.family == judging && len(by) == 1 && by[0].Name == "run" {
		by[0].Name = "mode" // whose work is judged
	}
	if b.family == agreement && len(by) == 1 && by[0] == (evalstream.Slice{Name: "run"}) {
		return nil // ratings have no run: the default grouping pools them
	}
	return by
}

// cellBy is a cell's group as it travels: the grouping's fields, and the one that a
// mean is taken over.
func (b *book) cellBy(s *sheet, c *cell) []evalstream.Slice {
	names := b.layouts[s.layout].names
	values := splitFields(s.groups.name(c.group))
	by := make([]evalstream.Slice, len(names))
	for i, name := range names {
		by[i] = evalstream.Slice{Name: name, Value: values[i]}
	}
	return by
}

// read appends the results of the views.
func (b *book) read(dst []*evalstream.Result, views []view, final bool) ([]*evalstream.Result, error) {
	var err error
	for i := range views {
		v := &views[i]
		from := len(dst)
		if dst, err = b.readView(dst, v, b.by(v)); err != nil {
			return dst, err
		}
		b.finish(dst[from:], v, final)
		if b.varies() {
			dst = b.gone(dst, v, dst[from:], final)
		}
	}
	return dst, nil
}

// finish sets what all metrics of a view share.
func (b *book) finish(rs []*evalstream.Result, v *view, final bool) {
	s, t := v.sheet, b.toldOf(v)
	if t.closed && v.touched {
		t.revision++
	}
	if !final && !s.window.All {
		final = v.window.End <= b.settled
	}
	closed := final || !s.window.All && v.window.End <= b.watermark && b.watermark != evalstream.NoTime
	t.closed, t.final = t.closed || closed, t.final || final
	for _, out := range rs {
		out.Closed, out.Final, out.Revision = closed, final, t.revision
	}
}

// withdraw appends an empty result for each metric of a window that was published.
func (b *book) withdraw(dst []*evalstream.Result, views []view) []*evalstream.Result {
	for i := range views {
		v := &views[i]
		if b.varies() {
			dst = b.gone(dst, v, nil, true)
		} else {
			from := len(dst)
			dst, _ = b.readView(dst, v, b.by(v))
			for _, r := range dst[from:] {
				r.Undefined = "withdrawn"
			}
		}
		delete(v.reader.told, cellKey{v.group, v.pane})
	}
	return dst
}

// readView appends one result a metric.
func (b *book) readView(dst []*evalstream.Result, v *view, by []evalstream.Slice) ([]*evalstream.Result, error) {
	missing, unknown := b.missing(v)
	base := evalstream.Result{
		By: by, Window: v.window, N: v.sum.n, Pending: v.sum.pending, Unjudged: v.sum.unjudged + v.sum.expired,
		Missing: missing, MissingUnknown: unknown, Settings: b.resultSettings(),
	}
	switch b.family {
	case fewshot:
		return b.readLabels(dst, base, v), nil
	case agreement:
		return b.readAgreement(dst, base, v)
	case judging:
		return b.readJudging(dst, base, v)
	}
	return b.readMeans(dst, base, v), nil
}

// resultSettings is what defines a result: the options of score, and of the reading.
// Results of different settings have different digests.
func (b *book) resultSettings() *evalstream.Settings {
	if b.reading != nil {
		return b.reading
	}
	o := &b.options
	var how string
	switch b.family {
	case fewshot:
		how = fmt.Sprintf("negative=%s zero_division=%s", o.Negative, o.ZeroDivision)
	case agreement:
		how = "level=" + o.Level.String()
		if len(o.Order) > 0 {
			how += " order=" + strings.Join(o.Order, ",")
		}
	case judging:
		how = "panel=" + strings.Join(o.Panel, ",")
	default:
		how = "missing=skip"
		if o.MissHits {
			how = "missing=miss"
		}
	}
	// The score's options do not travel, so the digest is made of its digest.
	var digest, text string
	if b.settings != nil {
		digest, text = b.settings.Digest, b.settings.Text
	}
	b.reading = newSettings(digest + " " + how)
	b.reading.Text = strings.TrimSpace(text + " " + how)
	return b.reading
}

// missing is how many judged units the run of the view never answered.
func (b *book) missing(v *view) (n int64, unknown string) {
	g := v.reader.grouping
	switch {
	case b.family == judging:
		return 0, noPanel
	case b.family == agreement:
		return 0, "ratings have no gold to be missing from"
	case !g.runOnly() || v.other:
		return 0, "known by run only"
	case !v.sheet.window.All:
		return 0, "known over all time only"
	case b.positions:
		return 0, "units are positions"
	}
	return max(0, b.missingOf(v)), ""
}

// missingOf is the number of judged units that are not in the view, 0 where that is
// not what the view is about.
func (b *book) missingOf(v *view) int64 {
	if b.family >= agreement || b.positions || v.other || !v.sheet.window.All || !v.reader.grouping.runOnly() {
		return 0
	}
	return b.judged - v.sum.n
}

func (b *book) readMeans(dst []*evalstream.Result, base evalstream.Result, v *view) []*evalstream.Result {
	for i, m := range b.measures {
		r := base
		r.Metric = b.names[i]
		var sum evalstream.Nano
		if len(v.sum.sums) > 0 {
			sum = v.sum.sums[i]
		}
		n := v.sum.n
		if b.options.MissHits {
			n += r.Missing
		}
		if m.Geometric() {
			readGeometric(&r, sum, n, v.sum.n)
		} else {
			setValue(&r, metric.Ratio(sum, n, metric.NoUnits))
			b.meanIntervals(&r, sum, n, m.Binary())
		}
		dst = append(dst, &r)
	}
	return dst
}

func readGeometric(r *evalstream.Result, sum evalstream.Nano, n, scored int64) {
	r.NoInterval = "none is known for a geometric mean"
	if n == 0 {
		r.Undefined = metric.NoUnits
		return
	}
	r.Value = metric.GeometricMean(sum.Float(), int(n), int(n-scored))
}

func setValue(r *evalstream.Result, v metric.Value) {
	r.Value, r.Undefined = v.Value, v.Undefined
	r.Ratio, r.Num, r.Den = v.HasRatio, v.Num, v.Den
}

// wants says that a method is to be read.
func (b *book) wants(method string) bool {
	return len(b.options.Intervals) == 0 || slices.Contains(b.options.Intervals, method)
}

func (b *book) meanIntervals(r *evalstream.Result, sum evalstream.Nano, n int64, proportion bool) {
	if r.Undefined != "" {
		r.NoInterval = r.Undefined
		return
	}
	if proportion && sum%evalstream.One == 0 {
		k := int64(sum / evalstream.One)
		if b.wants("wilson") {
			r.Intervals = append(r.Intervals, interval(metric.Wilson(k, n, b.options.Confidence)))
		}
		if b.wants("beta_cs") {
			r.Intervals = append(r.Intervals, interval(metric.BetaCS(k, n, b.options.Confidence)))
		}
	} else if b.wants("normal_mixture_cs") {
		iv := interval(metric.NormalMixtureCS(r.Value, n, .5, b.options.MixtureR, b.options.Confidence))
		iv.Parameter, iv.Setting = "r", b.options.MixtureR
		r.Intervals = append(r.Intervals, iv)
	}
	if len(r.Intervals) == 0 {
		r.NoInterval = "no method that was asked for fits this metric"
	}
}

func interval(i metric.Interval) evalstream.Interval {
	return evalstream.Interval{Method: i.Method, Looks: i.Looks, Confidence: i.Confidence, Low: i.Low, High: i.High}
}

// readLabels appends micro and macro precision, recall and F1; with relation among
// the fields, one set a relation instead.
func (b *book) readLabels(dst []*evalstream.Result, base evalstream.Result, v *view) []*evalstream.Result {
	g := v.reader.grouping
	zero := b.options.ZeroDivision
	if v.sum.n == 0 { // nothing was scored, so no convention has anything to say
		for _, name := range []string{"f1", "precision", "recall"} {
			row := base
			row.Metric, row.Undefined, row.NoInterval = name, metric.NoUnits, metric.NoUnits
			dst = append(dst, &row)
		}
		return dst
	}
	if g.relation >= 0 {
		for i, p := range v.sum.relations {
			if p == (metric.PRF{}) {
				continue
			}
			row := base
			row.By = slices.Clone(base.By)
			row.By[g.relation].Value = string(evalstream.AppendString(nil, b.relations.name(uint32(i))))
			row.N = p.Guessed + p.Gold - p.Correct
			dst = b.readPRF(dst, row, p, zero)
		}
		return dst
	}
	var micro metric.PRF
	var rows []metric.PRF
	for _, p := range v.sum.relations {
		if p != (metric.PRF{}) {
			micro.Add(p)
			rows = append(rows, p)
		}
	}
	dst = b.readPRF(dst, base, micro, zero)
	p, r, f1 := metric.Macro(rows, zero)
	for _, m := range []struct {
		name  string
		value metric.Value
	}{{"macro_f1", f1}, {"macro_precision", p}, {"macro_recall", r}} {
		row := base
		row.Metric, row.Of, row.NoInterval = m.name, int64(len(rows)), "none is known for a mean over relations"
		setValue(&row, m.value)
		dst = append(dst, &row)
	}
	return dst
}

func (b *book) readPRF(dst []*evalstream.Result, base evalstream.Result, c metric.PRF, zero metric.ZeroDivision) []*evalstream.Result {
	for _, m := range []struct {
		name  string
		value metric.Value
	}{{"f1", c.F1(zero)}, {"precision", c.Precision(zero)}, {"recall", c.Recall(zero)}} {
		row := base
		row.Metric = m.name
		setValue(&row, m.value)
		if m.name == "f1" {
			row.NoInterval = "none is known for F1"
		} else {
			b.meanIntervals(&row, m.value.Num, m.value.Den, true)
		}
		dst = append(dst, &row)
	}
	return dst
}

func (b *book) readAgreement(dst []*evalstream.Result, base evalstream.Result, v *view) ([]*evalstream.Result, error) {
	r := base
	r.Metric = "alpha"
	domain, counts, err := b.agreement(&v.sum)
	if err != nil {
		return dst, err
	}
	b.alpha(&r, domain, counts)
	return append(dst, &r), nil
}

// alpha sets the value of an agreement and its interval.
func (b *book) alpha(r *evalstream.Result, domain metric.Domain, counts []metric.PatternCount) {
	a := metric.Alpha(domain, counts)
	r.Agreed = true
	r.Units, r.Values = a.Units, a.Values
	setValue(r, a.Alpha)
	if b.wants("poisson_bootstrap") {
		boot := metric.PoissonBootstrap(domain, counts, metric.Resampling{Replicas: b.options.Bootstrap, Seed: b.options.Seed, Confidence: b.options.Confidence})
		if boot.Undefined == "" {
			iv := interval(boot.Interval)
			iv.Parameter, iv.Setting = "replicas", float64(boot.Used)
			r.Intervals = append(r.Intervals, iv)
		} else {
			r.NoInterval = boot.Undefined
		}
	} else {
		r.NoInterval = "no method that was asked for fits this metric"
	}
}

func (b *book) agreement(c *cell) (metric.Domain, []metric.PatternCount, error) {
	literals, err := c.patterns.Literals()
	if err != nil {
		return metric.Domain{}, nil, err
	}
	domain, err := metric.OrderDomain(b.options.Level, literals, b.options.Order)
	if err != nil {
		hint := "take --level nominal, or --level ordinal with the values from low to high in --order"
		if b.options.Level == metric.OrdinalLevel {
			hint = "name the values from low to high with --order, or take another --level"
		}
		return metric.Domain{}, nil, &evalstream.ExitError{Code: evalstream.ExitUsage, Err: err, Hint: hint}
	}
	counts, err := c.patterns.Counts(domain)
	return domain, counts, err
}

// readOver appends the mean over the groups that differ in the over field alone, where
// one of them was touched or has closed. withdrawn are groups that hold nothing any more.
func (b *book) readOver(dst []*evalstream.Result, reader *reader, views, withdrawn []view, final bool) ([]*evalstream.Result, error) {
	type mean struct {
		key    string
		first  *evalstream.Result
		values []float64
		due    bool
	}
	means := map[string]*mean{}
	var order []*mean
	for i := range views {
		v := &views[i]
		rs, err := b.readView(nil, v, b.by(v))
		if err != nil {
			return dst, err
		}
		before := v.reader.told[cellKey{v.group, v.pane}]
		wasClosed, wasFinal := before != nil && before.closed, before != nil && before.final
		b.finish(rs, v, final)
		for _, r := range rs {
			key := string(appendResultKey(nil, r))
			m := means[key]
			if m == nil {
				m = &mean{key: key, first: r}
				means[key] = m
				order = append(order, m)
			} else {
				m.first.Pending += r.Pending
				m.first.Unjudged += r.Unjudged
				m.first.OffPanel += r.OffPanel
				m.first.Revision = max(m.first.Revision, r.Revision)
			}
			if r.Undefined == "" {
				m.values = append(m.values, r.Value)
			}
			m.due = m.due || final || v.touched || r.Closed && !wasClosed || r.Final && !wasFinal
		}
	}
	if b.inherits() {
		for _, v := range slices.Concat(views, withdrawn) {
			maps.Copy(reader.means, b.possible(&v))
		}
	}
	for i := range withdrawn {
		v := &withdrawn[i]
		for key := range b.possible(v) {
			if m := means[key]; m != nil {
				m.due = true // the others remain
			}
		}
		delete(reader.told, cellKey{v.group, v.pane})
	}
	for key, r := range reader.means { // all groups are there: what is not among them is gone
		if means[key] == nil {
			delete(reader.means, key)
			r.Over = b.options.Over
			dst = append(dst, r)
		}
	}
	for _, m := range order {
		if !m.due {
			continue
		}
		r := m.first
		reader.means[m.key] = asWithdrawn(r)
		value, sd := metric.MeanSD(m.values)
		r.Intervals, r.NoInterval = nil, "sd says how far the groups differ; it is not an interval"
		r.Ratio, r.Num, r.Den, r.Of, r.Agreed = false, 0, 0, 0, false
		r.Value, r.Undefined, r.Over, r.N = value.Value, value.Undefined, b.options.Over, int64(len(m.values))
		r.SD, r.HasSD = sd.Value, sd.Defined()
		r.Missing, r.MissingUnknown = 0, "known by run only"
		dst = append(dst, r)
	}
	return dst, nil
}

// ratingText is a rating's literal without quotes: 1 and "1" are one value.
func ratingText(literal string) string {
	if !strings.HasPrefix(literal, `"`) {
		return literal
	}
	if !strings.Contains(literal, `\`) {
		return literal[1 : len(literal)-1]
	}
	var s string
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		return literal
	}
	return s
}

func sortByKey(recs []evalstream.Record) {
	keys := make(map[evalstream.Body]string, len(recs))
	for i := range recs {
		keys[recs[i].Body] = string(recs[i].Body.AppendKey(nil))
	}
	slices.SortFunc(recs, func(a, b evalstream.Record) int { return compareText(keys[a.Body], keys[b.Body]) })
}
