package codecs

import (
	"math"
	"strconv"

	"evalstream"
)

const (
	instanceID = iota
	instanceRelation
	instanceToken
	instanceSubjStart
	instanceSubjEnd
	instanceObjStart
	instanceObjEnd
	instanceSubjType
	instanceObjType
	instanceVector
)

const (
	episodeDataset = iota
	episodePartition
	episodeSeed
	episodeK
	episodeEpisode
	episodeN
	episodeTargets
	episodeSupport
	episodeQueries
)

func instanceFields() []string {
	return []string{"id", "relation", "token", "subj_start", "subj_end", "obj_start", "obj_end", "subj_type", "obj_type", "vector"}
}

func episodeFields() []string {
	return []string{"dataset", "partition", "seed", "k", "episode", "n", "targets", "support", "queries"}
}

func (d *Decoder) readInstance(rec *evalstream.Record) *evalstream.Fault {
	b := new(evalstream.Instance)
	var f *evalstream.Fault
	if b.ID, f = d.id(instanceID); f != nil {
		return f
	}
	if b.Relation, _, f = d.optionalID(instanceRelation); f != nil {
		return f
	}
	if b.Tokens, f = d.texts(d.at(instanceToken), d.r.paths[instanceToken]); f != nil {
		return f
	}
	for field, to := range [...]*int32{
		instanceSubjStart: &b.SubjStart, instanceSubjEnd: &b.SubjEnd, instanceObjStart: &b.ObjStart, instanceObjEnd: &b.ObjEnd,
	} {
		if to == nil {
			continue
		}
		v := d.at(field)
		if d.null(v) {
			return d.want(field, "index of a token")
		}
		n, f := d.integer(field, "index of a token")
		if f != nil {
			return f
		}
		if n < 0 || n >= int64(len(b.Tokens)) || n > math.MaxInt32 {
			return v.fault(d.line, d.r.paths[field], "want an index below "+strconv.Itoa(len(b.Tokens))+", got "+strconv.FormatInt(n, 10))
		}
		*to = int32(n)
	}
	if b.SubjStart > b.SubjEnd {
		return d.at(instanceSubjEnd).fault(d.line, d.r.paths[instanceSubjEnd], "the span ends before it starts")
	}
	if b.ObjStart > b.ObjEnd {
		return d.at(instanceObjEnd).fault(d.line, d.r.paths[instanceObjEnd], "the span ends before it starts")
	}
	if b.SubjType, _, f = d.optionalID(instanceSubjType); f != nil {
		return f
	}
	if b.ObjType, _, f = d.optionalID(instanceObjType); f != nil {
		return f
	}
	if b.Vector, f = d.vector(instanceVector); f != nil {
		return f
	}
	rec.Body = b
	return nil
}

// texts reads an array of ids.
func (d *Decoder) texts(list span, path string) ([]string, *evalstream.Fault) {
	if list.absent() {
		return nil, &evalstream.Fault{Class: evalstream.ClassSchema, Path: path, Reason: "missing; want array of strings"}
	}
	if d.line[list.from] != '[' {
		return nil, d.wantAt(list, path, "array of strings")
	}
	var all []string
	for i, e := range d.elements(list) {
		id, ok := d.idAt(e)
		if !ok {
			return nil, d.wantAt(e, path+"/"+strconv.Itoa(i), "string or number")
		}
		all = append(all, id)
	}
	return all, nil
}

func (d *Decoder) readEpisode(rec *evalstream.Record) *evalstream.Fault {
	b := new(evalstream.Episode)
	var f *evalstream.Fault
	for field, to := range [...]*string{
		episodeDataset: &b.Dataset, episodePartition: &b.Partition, episodeSeed: &b.Seed, episodeK: &b.K, episodeEpisode: &b.Episode,
	} {
		if *to, _, f = d.optionalID(field); f != nil {
			return f
		}
	}
	if b.Targets, f = d.texts(d.at(episodeTargets), d.r.paths[episodeTargets]); f != nil {
		return f
	}
	if n := d.at(episodeN); !d.null(n) {
		want, f := d.integer(episodeN, "integer")
		if f != nil {
			return f
		}
		if want != int64(len(b.Targets)) {
			return n.fault(d.line, d.r.paths[episodeN], "want the number of targets, "+strconv.Itoa(len(b.Targets))+", got "+strconv.FormatInt(want, 10))
		}
	}
	support := d.at(episodeSupport)
	if support.absent() || d.line[support.from] != '[' {
		return d.want(episodeSupport, "array of arrays of ids")
	}
	for i, e := range d.elements(support) {
		ids, f := d.texts(e, d.r.paths[episodeSupport]+"/"+strconv.Itoa(i))
		if f != nil {
			return f
		}
		b.Support = append(b.Support, ids)
	}
	if len(b.Support) != len(b.Targets) {
		return support.fault(d.line, d.r.paths[episodeSupport], "want a list for each of "+strconv.Itoa(len(b.Targets))+" targets, got "+strconv.Itoa(len(b.Support)))
	}
	if f := d.episodeQueries(b); f != nil {
		return f
	}
	b.Slices = d.slicesOf()
	rec.Body = b
	return nil
}

func (d *Decoder) episodeQueries(b *evalstream.Episode) *evalstream.Fault {
	list := d.at(episodeQueries)
	if list.absent() || d.line[list.from] != '[' {
		return d.want(episodeQueries, "array of {id, gold}")
	}
	for i, e := range d.elements(list) {
		path := d.r.paths[episodeQueries] + "/" + strconv.Itoa(i)
		if d.line[e.from] != '{' {
			return d.wantAt(e, path, "object with id and gold")
		}
		var q evalstream.EpisodeQuery
		hasID := false
		for c := d.members(e); c.next(); {
			name := c.name()
			if name != "id" && name != "source_relation" && name != "gold" || name != "id" && d.null(c.value) {
				continue
			}
			text, ok := d.idAt(c.value)
			if !ok {
				return d.wantAt(c.value, path+pointerTo(name), "string or number")
			}
			switch name {
			case "id":
				q.ID, hasID = text, true
			case "source_relation":
				q.SourceRelation = text
			case "gold":
				q.Gold, q.HasGold = text, true
			}
		}
		if !hasID {
			return e.fault(d.line, path+"/id", "missing; want string or number")
		}
		b.Queries = append(b.Queries, q)
	}
	return nil
}

func (o *object) texts(name string, all []string) {
	o.key(name)
	o.list(all)
}

func (o *object) list(all []string) {
	o.b = append(o.b, '[')
	for i, s := range all {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = evalstream.AppendString(o.b, s)
	}
	o.b = append(o.b, ']')
}

func (o *object) instance(b *evalstream.Instance) {
	o.text("id", b.ID)
	o.optional("relation", b.Relation)
	o.texts("token", b.Tokens)
	o.int("subj_start", int64(b.SubjStart))
	o.int("subj_end", int64(b.SubjEnd))
	o.int("obj_start", int64(b.ObjStart))
	o.int("obj_end", int64(b.ObjEnd))
	o.optional("subj_type", b.SubjType)
	o.optional("obj_type", b.ObjType)
	o.vector(b.Vector)
}

func (o *object) episode(b *evalstream.Episode) {
	o.optional("dataset", b.Dataset)
	o.optional("partition", b.Partition)
	o.optional("seed", b.Seed)
	o.int("n", int64(len(b.Targets)))
	o.optional("k", b.K)
	o.optional("episode", b.Episode)
	o.texts("targets", b.Targets)
	o.key("support")
	o.b = append(o.b, '[')
	for i, ids := range b.Support {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.list(ids)
	}
	o.b = append(o.b, ']')
	o.key("queries")
	o.b = append(o.b, '[')
	for i, q := range b.Queries {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.text("id", q.ID)
		o.optional("source_relation", q.SourceRelation)
		if q.HasGold {
			o.text("gold", q.Gold)
		}
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']')
	o.slices(b.Slices)
}
