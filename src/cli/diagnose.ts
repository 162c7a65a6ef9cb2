import type { Target } from '../resolver/target-grammar.js';
import { judge } from './judge.js';
import { apiLines, connectionLines, dnsLines, processLines, useLines } from './lines.js';
import type { Diagnosis, Facts } from './report.js';
import { todoOf } from './todo.js';

/** Judges the findings of `evenkeel doctor`: whether each line is good or bad, the overall verdict, and what to change. A pure function. */
export function diagnose(parsed: Target, facts: Facts): Diagnosis {
  return {
    ...judge(parsed, facts),
    api: facts.api === undefined ? [] : apiLines(parsed, facts.api),
    dns: facts.dns === undefined ? [] : dnsLines(parsed, facts.dns, facts.use.mode === 'slices'),
    use: useLines(facts),
    connections: connectionLines(facts),
    process: facts.process === undefined ? [] : processLines(facts.process),
    todo: todoOf(parsed, facts),
  };
}
