package codecs

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/goccy/go-json"

	"evalstream"
)

// tatqaDoc is one entry of a TAT-QA file (Zhu et al., ACL 2021): a table, the
// paragraphs around it, and questions about them.
type tatqaDoc struct {
	Table struct {
		UID   string     `json:"uid"`
		Table [][]string `json:"table"`
	} `json:"table"`
	Paragraphs []struct {
		Order json.Number `json:"order"`
		Text  string      `json:"text"`
	} `json:"paragraphs"`
	Questions []struct {
		UID           string   `json:"uid"`
		Question      string   `json:"question"`
		AnswerType    string   `json:"answer_type"`
		AnswerFrom    string   `json:"answer_from"`
		RelParagraphs []string `json:"rel_paragraphs"`
	} `json:"questions"`
}

// TATQA reads a TAT-QA file as passage, query and qrel records: for each document its
// table, its paragraphs, its questions, and which passages answer each.
//
// A passage's id is <table uid>#t for the table and <table uid>#<order> for a
// paragraph; a table's text is its rows, a line each, the cells joined by " | ". Each
// passage carries table_head, the cells of the first row that are not empty, joined by
// spaces. A query carries answer_type and answer_from. A question is answered by the
// table if answer_from says so, and by its rel_paragraphs always.
//
// A Pos is the document's ordinal in the file, from 1. It ends at the first error.
func TATQA(r io.Reader, origin *evalstream.Origin) iter.Seq2[evalstream.Record, error] {
	return func(yield func(evalstream.Record, error) bool) {
		seq, line := evalstream.Seq(0), int64(0)
		fail := func(err error) {
			pos := evalstream.Pos{Origin: origin, Line: line}
			yield(evalstream.Record{}, evalstream.Usagef("%s: want a TAT-QA file, an array of {table, paragraphs, questions}: %w", pos, err))
		}
		dec := json.NewDecoder(r)
		if t, err := dec.Token(); err != nil || t != json.Delim('[') {
			if err == nil {
				err = fmt.Errorf("got %v", t)
			}
			fail(err)
			return
		}
		for dec.More() {
			line++
			var doc tatqaDoc
			if err := dec.Decode(&doc); err != nil {
				fail(err)
				return
			}
			if doc.Table.UID == "" {
				fail(errors.New("a table has no uid"))
				return
			}
			for b := range doc.bodies() {
				rec := evalstream.Record{Body: b, Time: evalstream.NoTime, Pos: evalstream.Pos{Origin: origin, Line: line}, Seq: seq}
				seq++
				if !yield(rec, nil) {
					return
				}
			}
		}
		if _, err := dec.Token(); err != nil {
			fail(err)
		}
	}
}

func (d *tatqaDoc) bodies() iter.Seq[evalstream.Body] {
	return func(yield func(evalstream.Body) bool) {
		uid := d.Table.UID
		var rows []string
		for _, cells := range d.Table.Table {
			rows = append(rows, strings.Join(cells, " | "))
		}
		head := []evalstream.Slice{{Name: "table_head", Value: string(evalstream.AppendString(nil, d.head()))}}
		if !yield(&evalstream.Passage{PassageID: uid + "#t", DocID: uid, Text: strings.Join(rows, "\n"), Slices: head}) {
			return
		}
		for _, p := range d.Paragraphs {
			if !yield(&evalstream.Passage{PassageID: uid + "#" + p.Order.String(), DocID: uid, Text: p.Text, Slices: head}) {
				return
			}
		}
		for _, q := range d.Questions {
			kinds := []evalstream.Slice{
				{Name: "answer_type", Value: strconv.Quote(q.AnswerType)},
				{Name: "answer_from", Value: strconv.Quote(q.AnswerFrom)},
			}
			if !yield(&evalstream.Query{QueryID: q.UID, DocID: uid, Text: q.Question, Slices: kinds}) {
				return
			}
			var answers []string
			for _, order := range q.RelParagraphs {
				answers = append(answers, uid+"#"+order)
			}
			if strings.Contains(q.AnswerFrom, "table") {
				answers = append(answers, uid+"#t")
			}
			for _, id := range answers {
				if !yield(&evalstream.Qrel{QueryID: q.UID, PassageID: id, Grade: 1}) {
					return
				}
			}
		}
	}
}

// head is the cells of the first row that are not empty.
func (d *tatqaDoc) head() string {
	if len(d.Table.Table) == 0 {
		return ""
	}
	var cells []string
	for _, c := range d.Table.Table[0] {
		if c = strings.Join(strings.Fields(c), " "); c != "" {
			cells = append(cells, c)
		}
	}
	return strings.Join(cells, " ")
}
