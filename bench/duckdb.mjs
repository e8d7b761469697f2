// The answers of `evalstream eval retrieval`, `eval fewshot` and `eval judge` by DuckDB, the yardstick of the benchmarks.
//
//   node duckdb.mjs retrieval LOG GOLD OUT [--threads 2] [--many-gold]
//   node duckdb.mjs fewshot PREDICTIONS OUT [--threads 2]
//   node duckdb.mjs verdicts VERDICTS OUT [--threads 2]
//
// OUT gets one result a line, in the fields that evalstream uses. Lists are ordered by score descending, then id
// descending. Without --many-gold each query has one relevant passage, which is what lets the SQL be as fast as it is.
import { DuckDBInstance } from '@duckdb/node-api'
import { parseArgs } from 'node:util'

const { positionals, values: flags } = parseArgs({
  allowPositionals: true,
  options: { threads: { type: 'string', default: '2' }, 'many-gold': { type: 'boolean', default: false } },
})

const quote = (text) => `'${text.replaceAll("'", "''")}'`

// A passage's rank needs no sorting: it is one more than the number of passages that stand before it.
const rankOf = (passage) => `
  len(list_filter(retrieved, x -> x.score > ${passage}.score or (x.score = ${passage}.score and x.id >= ${passage}.id)))`

// One relevant passage: all four measures follow from its rank, which is null if it was not retrieved.
const oneGold = (log, gold) => `
  found as (
    select model, ticker, ts, retrieved, list_filter(retrieved, x -> x.id = passage_id)[1] as hit
    from ${log} join ${gold} using (query_id)),
  ranked as (
    select model, ticker, date_trunc('hour', ts) as hour, case when hit is not null then ${rankOf('hit')} end as rank
    from found),
  units as (
    select model, ticker, hour,
      coalesce((rank = 1)::int, 0) as success,
      coalesce((rank <= 10)::int, 0) as recall,
      coalesce(1 / rank, 0) as rr,
      coalesce(case when rank <= 10 then 1 / log2(1 + rank) end, 0) as ndcg
    from ranked)`

const manyGold = (log, gold) => `
  judged as (select query_id, list(passage_id) as relevant from ${gold} group by query_id),
  found as (
    select model, ticker, ts, retrieved, relevant, list_filter(retrieved, x -> list_contains(relevant, x.id)) as hits
    from ${log} join judged using (query_id)),
  ranked as (
    select model, ticker, date_trunc('hour', ts) as hour, len(relevant) as judged,
      list_transform(hits, hit -> ${rankOf('hit')}) as ranks
    from found),
  units as (
    select model, ticker, hour,
      coalesce((list_min(ranks) = 1)::int, 0) as success,
      len(list_filter(ranks, r -> r <= 10)) / judged as recall,
      coalesce(1 / list_min(ranks), 0) as rr,
      coalesce(list_sum(list_transform(list_filter(ranks, r -> r <= 10), r -> 1 / log2(1 + r))), 0)
        / list_sum(list_transform(range(1, least(judged, 10) + 1), i -> 1 / log2(1 + i))) as ndcg
    from ranked)`

function retrieval(logPath, goldPath, out) {
  const log = `read_ndjson(${quote(logPath)}, columns = {query_id: 'VARCHAR', model: 'VARCHAR', ticker: 'VARCHAR',
    ts: 'TIMESTAMP', retrieved: 'STRUCT(id VARCHAR, score DOUBLE)[]'})`
  const gold = `read_ndjson(${quote(goldPath)}, columns = {query_id: 'VARCHAR', passage_id: 'VARCHAR'})`
  return `copy (
    with ${(flags['many-gold'] ? manyGold : oneGold)(log, gold)},
    cells as (
      select model, ticker, hour, count(*) as n, sum(success) as success, sum(recall) as recall, sum(rr) as rr,
        sum(ndcg) as ndcg
      from units group by all),
    grouped as (
      select case when model is not null then map {'run': model} else map {'ticker': ticker} end as "by",
        case when hour is null then '"all"'::json
          else json_object('start', strftime(hour, '%Y-%m-%dT%H:%M:%SZ'),
            'end', strftime(hour + interval 1 hour, '%Y-%m-%dT%H:%M:%SZ')) end as "window",
        sum(n) as n, sum(success) as success, sum(recall) as recall, sum(rr) as rr, sum(ndcg) as ndcg
      from cells group by grouping sets ((model), (ticker), (model, hour), (ticker, hour)))
    select 'result' as kind, m.metric, "by", "window", m.num / n as value, m.num as num, n as den, n, true as final
    from grouped, unnest([{metric: 'success@1', num: success::double}, {metric: 'recall@10', num: recall::double},
      {metric: 'mrr', num: rr}, {metric: 'ndcg@10', num: ndcg}]) as t(m)
  ) to ${quote(out)} (format json)`
}

function fewshot(path, out) {
  return `copy (
    with seeds as (
      select seed, count(*) as n,
        count_if(label <> 'no_relation') as guessed,
        count_if(gold <> 'no_relation') as gold,
        count_if(label = gold and gold <> 'no_relation') as correct
      from read_ndjson(${quote(path)}, columns = {seed: 'VARCHAR', label: 'VARCHAR', gold: 'VARCHAR'})
      group by seed)
    select 'result' as kind, m.metric, map {'seed': seed} as "by", '"all"'::json as "window", m.num / m.den as value, m.num as num,
      m.den as den, n, true as final
    from seeds, unnest([{metric: 'precision', num: correct, den: guessed}, {metric: 'recall', num: correct, den: gold},
      {metric: 'f1', num: 2 * correct, den: guessed + gold}]) as t(m)
  ) to ${quote(out)} (format json)`
}

// A unit's verdicts are 0, 1 or null, one of each judge of a panel of three, so its two counts say all; units with equal
// counts are added up before anything is made of them. A lone judge may be heard: that unit is undecided.
function verdicts(path, out) {
  return `copy (
    with units as (
      select mode, dimension, count_if(verdict = 1) as ones, count_if(verdict = 0) as zeros
      from read_ndjson(${quote(path)}, columns = {span_id: 'VARCHAR', triple_id: 'VARCHAR', mode: 'VARCHAR',
        dimension: 'VARCHAR', prompt_version: 'VARCHAR', verdict: 'TINYINT'})
      group by span_id, triple_id, mode, dimension, prompt_version),
    patterns as (
      select mode, dimension, ones, zeros, ones + zeros as heard, count(*)::bigint as units from units group by all),
    cells as (
      select mode, dimension, sum(units) as n,
        sum(units) filter (ones >= 2) as ones,
        sum(units) filter (ones >= 2 or zeros >= 2) as decided,
        sum(units * ones) filter (heard >= 2) as all_ones,
        sum(units * zeros) filter (heard >= 2) as all_zeros,
        sum(units * 2 * ones * zeros / (heard - 1)) filter (heard >= 2) as apart
      from patterns group by all)
    select 'result' as kind, dimension || m.suffix as metric, map {'mode': mode} as "by", '"all"'::json as "window",
      m.value, m.num, m.den, n, true as final
    from cells, unnest([
      {suffix: '', value: ones / n, num: ones, den: n},
      {suffix: '_judged', value: ones / decided, num: ones, den: decided},
      {suffix: '_coverage', value: decided / n, num: decided, den: n},
      {suffix: '_alpha', value: 1 - (all_ones + all_zeros - 1) * apart / (2 * all_ones * all_zeros), num: null, den: null}
    ]) as t(m)
  ) to ${quote(out)} (format json)`
}

const [workload, ...paths] = positionals
const sql = { retrieval, fewshot, verdicts }[workload]
if (!sql || paths.length !== sql.length) {
  console.error('usage: duckdb.mjs retrieval LOG GOLD OUT | fewshot PREDICTIONS OUT | verdicts VERDICTS OUT  [--threads N] [--many-gold]')
  process.exit(2)
}
const database = await DuckDBInstance.create(':memory:', { threads: flags.threads })
const connection = await database.connect()
await connection.run('SET preserve_insertion_order = false')
const start = performance.now()
await connection.run(sql(...paths))
console.error(`query_seconds=${((performance.now() - start) / 1000).toFixed(4)}`) // without the start of node and DuckDB
