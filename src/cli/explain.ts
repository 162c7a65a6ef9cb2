import { EvenkeelError } from '../errors.js';
import { type Candidate, contentsOf, type ExplainedCall, explainCall, type ListedCall } from '../recorder/explained.js';
import type { RecordedEndpoint } from '../recorder/format.js';
import type { LastCall } from '../recorder/last-calls.js';
import type { LeftOut } from '../recorder/left-out.js';
import { type PodAt, type PodsAt, podsAt } from '../recorder/pods-at.js';
import { type DumpedBalancer, readDump } from '../recorder/read-dump.js';
import type { ExplainCommand } from './command-line.js';
import { chosen, readFile, WallClock } from './recording-file.js';
import {
  count,
  LISTED,
  madeText,
  ms,
  nameOf,
  noteText,
  outcomeText,
  round,
  summaryOf,
  table,
} from './recording-text.js';

/** Runs `evenkeel explain`: says why a call went to its endpoint, or lists calls. Returns the exit code. */
export function explain(command: ExplainCommand, write: (text: string) => void): number {
  const dump = readDump(readFile(command.file));
  const balancer = chosen(dump, command.balancer);
  const clock = new WallClock(dump, balancer);
  if (command.call !== undefined) {
    const explained = explainCall(balancer, command.call);
    if (explained === undefined) {
      throw new EvenkeelError('EVENKEEL_OPTION', `the recording has no call ${command.call}`);
    }
    write(`${sentencesOf(explained, balancer, clock).join('\n')}\n`);
    return 0;
  }
  const contents = contentsOf(balancer);
  const atMs = command.at === undefined ? undefined : clock.parse(command.at);
  const { pod } = command;
  let calls = contents.calls;
  if (pod !== undefined) calls = calls.filter(({ endpoint }) => isMeant(endpoint, pod));
  if (atMs !== undefined) calls = calls.filter((call) => call.atMs >= atMs).slice(0, LISTED);
  else calls = calls.slice(-LISTED);
  const lines = [...summaryOf(dump, balancer, contents, clock), '', ...listOf(calls, clock)];
  if (pod !== undefined) {
    const at = podsAt(balancer, (endpoint) => isMeant(endpoint, pod), atMs);
    lines.push('', ...(at === undefined ? ['The recording begins later.'] : podLines(at, balancer, clock)));
  }
  write(`${lines.join('\n')}\n`);
  return 0;
}

/** Describes what each endpoint of a pod is to the picker, and why it gets no calls if it gets none. */
function podLines(at: PodsAt, balancer: DumpedBalancer, clock: WallClock): string[] {
  const { atMs, version, listed, ready, pods } = at;
  const lines = [
    `At ${clock.of(atMs)} UTC the set (version ${version}) had ${count(listed, 'endpoint')}; the picker could choose from ${ready}.`,
  ];
  if (pods.length === 0) lines.push('  No endpoint of this name was in the set at any time in the recording.');
  for (const pod of pods.slice(0, LISTED)) lines.push(...podSentences(pod, at, balancer, clock));
  if (pods.length > LISTED) lines.push(`  and ${pods.length - LISTED} more of this name`);
  return lines;
}

function podSentences(
  pod: PodAt,
  { atMs, ready, order }: PodsAt,
  balancer: DumpedBalancer,
  clock: WallClock,
): string[] {
  const { endpoint, what, leftOut, listedUntilMs, calls, inFlight, last, facts } = pod;
  const { configuration } = balancer;
  const lines: string[] = [];
  const name = nameOf(endpoint);
  if (leftOut !== undefined) {
    lines.push(`  ${name} was out: ${whyOut(leftOut, stageNames(configuration), atMs)}`);
  } else if (what === 'gone') {
    lines.push(`  ${name} was no longer in the set; it was last at ${clock.of(listedUntilMs ?? atMs)}`);
  } else if (order !== undefined && facts.place !== undefined) {
    lines.push(
      `  ${name} was in place ${facts.place} of ${order} in this client's order: a call goes to the first that has none of this client's calls`,
    );
  } else lines.push(`  ${name} was one of the ${ready} the picker could choose`);
  const details = [
    `${count(calls, 'call')} on it in the recording`,
    `${inFlight} in flight`,
    last === undefined ? '' : lastText(last, atMs),
    facts.latencyMs === undefined ? '' : `counts as ${ms(facts.latencyMs)}`,
    facts.failing === undefined ? '' : `${Math.round(facts.failing * 100)} % fail`,
  ];
  lines.push(`    ${details.filter((text) => text !== '').join(', ')}`);
  return lines;
}

function stageNames({ stages }: DumpedBalancer['configuration']): (index: number) => string {
  return (index) => stages[index] ?? 'a stage of the application';
}

/** How long the last call on an endpoint took, and how long ago that was, such as `took 400 ms 12.3 s before`. */
function lastText({ outcome, latencyMs, endedAtMs }: LastCall, atMs: number): string {
  const how = outcome.kind === 'success' ? 'took' : `${outcomeText(outcome)} after`;
  return `${how} ${ms(latencyMs)}, ${ms(Math.max(0, atMs - endedAtMs))} before`;
}

function isMeant({ name, key }: RecordedEndpoint, pod: string): boolean {
  return key.includes(pod) || name?.includes(pod) === true;
}

function listOf(calls: readonly ListedCall[], clock: WallClock): string[] {
  if (calls.length === 0) return ['no such call'];
  const rows = calls.map(({ call, atMs, endpoint, isRetry, waitedMs, end }) => [
    String(call),
    clock.of(atMs),
    nameOf(endpoint),
    end === undefined ? 'running' : `${outcomeText(end.outcome)} after ${ms(end.afterMs)}`,
    `${isRetry ? 'retry ' : ''}${waitedMs === undefined ? '' : `waited ${ms(waitedMs)}`}`,
  ]);
  return table([['call', 'at (UTC)', 'endpoint', 'outcome', ''], ...rows]);
}

function sentencesOf(explained: ExplainedCall, balancer: DumpedBalancer, clock: WallClock): string[] {
  const { call, atMs, endpoint, listed, ready, version, leftOut, lighter, end, waitedMs, avoided } = explained;
  const stage = stageNames(balancer.configuration);
  const lines = [`Call ${call} of ${balancer.name} went to ${nameOf(endpoint)} at ${clock.of(atMs)} UTC.`, ''];
  if (waitedMs !== undefined) lines.push(`It had waited ${ms(waitedMs)} until an endpoint could take it.`);
  if (avoided.length > 0) {
    lines.push(`It is a retry: it had been tried on ${avoided.map(nameOf).join(', ')}, which this pick avoids.`);
  }
  lines.push(`The set (version ${version}) had ${count(listed, 'endpoint')}; the picker could choose from ${ready}.`);
  for (const each of leftOut.slice(0, LISTED))
    lines.push(`  ${nameOf(each.endpoint)} was out: ${whyOut(each, stage, atMs)}`);
  if (leftOut.length > LISTED) lines.push(`  and ${leftOut.length - LISTED} more were out`);
  for (const each of lighter.slice(0, LISTED)) {
    lines.push(`  ${nameOf(each.endpoint)} had its weight lowered to ${round(each.weight)} by ${stage(each.stage)}`);
  }
  lines.push('', ...decisionOf(explained, balancer), '');
  if (end === undefined) lines.push('Its end is not in the recording.');
  else {
    const latency =
      Math.abs(end.latencyMs - end.afterMs) < 0.05 ? '' : `; the endpoint took ${ms(end.latencyMs)} to respond`;
    lines.push(`It ended after ${ms(end.afterMs)}: ${outcomeText(end.outcome)}${latency}.`);
  }
  return lines;
}

function whyOut(out: LeftOut, stage: (index: number) => string, atMs: number): string {
  const { note, state, suspect } = out;
  const before = ms(Math.max(0, atMs - (note?.at ?? 0)));
  if (note?.what === 'ejected' && suspect) return `${noteText(note)}, ${before} before`;
  const history = note === undefined ? '' : `, ${before} before: ${noteText(note)}`;
  if (out.stage !== undefined) {
    const by = out.stage < 0 ? 'standby' : `by ${stage(out.stage)}`;
    return `${by}${suspect ? ', as a suspect' : ''}${history}`;
  }
  return state === 'ready' ? 'it had just connected' : `not connected (${state})${history}`;
}

/** How pickers choose that do not compare costs, in words. */
const withoutCosts: ReadonlyMap<string, string> = new Map([
  ['random', 'random draws one endpoint by weight, whatever its load'],
  ['roundRobin', 'roundRobin takes the next in turn, whatever its load: it was its turn'],
  ['weightedRoundRobin', 'weightedRoundRobin takes the one whose turn it is, by weight and rate'],
]);

function decisionOf(explained: ExplainedCall, { configuration }: DumpedBalancer): string[] {
  const { looked, cheapest, ready, endpoint, again, keyed, knowsLoad } = explained;
  const { picker, load } = configuration;
  const lines: string[] = [];
  const unknownLoad = 'The load is a function of the application: what it said about the endpoints is not known.';
  if (picker === undefined) {
    lines.push(
      'The picker is a function of the application: why it chose this endpoint is not known. What it could see:',
    );
    lines.push(
      ...(knowsLoad ? candidateTable(cheapest, explained) : [...candidateTable(cheapest, explained), unknownLoad]),
    );
    return lines;
  }
  const { name } = picker;
  const compared = looked.filter(({ cost }) => cost !== undefined);
  const full = looked.filter(({ hasRoom }) => !hasRoom);
  for (const each of full.slice(0, 8))
    lines.push(`${nameOf(each.endpoint)} could not take another call (${each.inFlight} in flight).`);
  if (again === 'another') {
    lines.push('Replayed, the picker chooses another endpoint: something it depends on is not in the recording.');
  }
  if (keyed && name === 'hash') {
    lines.push(
      `hash: the key of the call belongs to this endpoint${full.length > 0 ? `, or to one of the ${full.length} above that had no room` : ''}.`,
    );
    return lines;
  }
  if (name === 'preferenceOrder' && compared.length === 0 && explained.ordered.length > 0) {
    lines.push(...orderedDecision(explained));
    return lines;
  }
  const rule = withoutCosts.get(name);
  if (rule !== undefined) {
    lines.push(`${rule}. What the load (${madeText(load)}) said then:`, ...candidateTable(cheapest, explained));
  } else if (compared.length > 0) {
    const all = compared.length >= ready;
    lines.push(
      `${name} ${all ? `looked at all ${ready}` : `drew ${compared.length} of ${ready} at random`} and compared what one more call costs there (${madeText(load)}):`,
    );
    lines.push(...candidateTable(compared, explained), reasonOf(compared, explained, all));
  } else {
    lines.push(
      `${name} keeps all ${ready} in order and takes the first. The cheapest by ${madeText(load)}:`,
      ...candidateTable(cheapest, explained),
    );
    lines.push(reasonOf(cheapest, explained, true));
  }
  if (!knowsLoad) lines.push(unknownLoad);
  if (!looked.concat(cheapest).some(({ isWinner }) => isWinner)) lines.push(`${nameOf(endpoint)} was not among them.`);
  return lines;
}

/** Why a picker that keeps an order of preference chose this endpoint. */
function orderedDecision(explained: ExplainedCall): string[] {
  const { ordered, ready, avoided } = explained;
  const winner = ordered.find(({ isWinner }) => isWinner);
  const lines = [
    `preferenceOrder keeps all ${ready} in an order of this client's own, sorted by latency as calls end:`,
  ];
  lines.push(
    ...candidateTable(
      ordered.map((each) => ({ ...each, cost: undefined })),
      explained,
    ),
  );
  if (winner === undefined) return lines;
  const name = nameOf(winner.endpoint);
  const place = winner.facts.place ?? 0;
  const passed = ordered.filter(
    ({ facts, inFlight }) => (facts.place ?? 0) < place && inFlight <= winner.inFlight,
  ).length;
  if (ordered.some(({ facts }) => facts.others !== undefined)) {
    lines.push(`${name} was the cheapest of the first of the order, where the calls of other clients count as well.`);
  } else if (winner.inFlight === 0) lines.push(`${name} was the first of the order without a call of this client.`);
  else
    lines.push(
      `${name} was the first of the order with as few calls of this client: all had ${winner.inFlight} or more.`,
    );
  if (passed > 0) {
    const tried = avoided.length > 0 ? ', was tried before' : '';
    lines.push(
      `Before it: ${passed} with as few calls, which had no room${tried}, or counts as busier because it fails or is slow.`,
    );
  }
  return lines;
}

function reasonOf(compared: readonly Candidate[], { equalWeights }: ExplainedCall, all: boolean): string {
  const winner = compared.find(({ isWinner }) => isWinner);
  if (winner?.cost === undefined) return 'The one it took was not compared: none of these could take the call.';
  const name = nameOf(winner.endpoint);
  const cheaper = compared.filter(
    ({ cost, hasRoom }) => hasRoom && cost !== undefined && cost < (winner.cost as number),
  );
  const equal = compared.filter(({ cost, isWinner, hasRoom }) => hasRoom && !isWinner && cost === winner.cost);
  const turn = all ? 'whose turn it was' : 'that was drawn first';
  if (cheaper.length > 0) {
    return `${name} was not the cheapest: ${equalWeights ? 'turns count' : 'weights and turns count'} as well, up to half a call.`;
  }
  return equal.length === 0
    ? `${name} was the cheapest.`
    : `${name} was as cheap as ${equal.length} of the others; of these it took the one ${turn}.`;
}

/**
 * A table of the endpoints from which a picker chose: the last call on each, as measured, and the latency that the load counts with, which
 * changes even without calls.
 */
function candidateTable(candidates: readonly Candidate[], { atMs }: ExplainedCall): string[] {
  return table(
    candidates.map(({ endpoint, cost, inFlight, weight, facts, last, isWinner }) => {
      const { place, latencyMs, failing, others, utilization, reportAgeMs } = facts;
      const reported = reportAgeMs === undefined ? '' : `, reported ${ms(reportAgeMs)} before`;
      return [
        `${isWinner ? '→' : ' '} ${nameOf(endpoint)}`,
        cost !== undefined ? `cost ${round(cost)}` : place !== undefined ? `place ${place}` : '',
        `${inFlight} in flight`,
        last === undefined ? 'no call recorded' : lastText(last, atMs),
        latencyMs === undefined ? '' : `counts as ${ms(latencyMs)}`,
        [
          failing === undefined ? '' : `${Math.round(failing * 100)} % fail`,
          others === undefined ? '' : `${round(others)} of others there${reported}`,
          utilization === undefined ? '' : `utilization ${round(utilization)}${reported}`,
          weight === 1 ? '' : `weight ${round(weight)}`,
        ]
          .filter((text) => text !== '')
          .join(', '),
      ];
    }),
  );
}
