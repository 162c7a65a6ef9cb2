import { EvenkeelError, isEvenkeelError } from '../errors.js';
import { contentsOf } from '../recorder/explained.js';
import type { Made } from '../recorder/format.js';
import { make } from '../recorder/makers.js';
import { object, readDump } from '../recorder/read-dump.js';
import { fitService, type ServiceModel } from '../recorder/service-model.js';
import { type Traffic, trafficOf } from '../recorder/traffic.js';
import { asRecorded, type Result, whatIf } from '../recorder/what-if.js';
import { quoted } from '../runtime/check.js';
import type { ReplayCommand } from './command-line.js';
import { chosen, readFile, WallClock } from './recording-file.js';
import { ms, summaryOf, table } from './recording-text.js';

/** The modelled 99th percentile of the recorded configuration may be off by this factor. */
const MOST_OFF = 1.25;
/** Above this the model does not explain why calls took longer on busy pods. */
const MUCH_REST = 0.2;

/** `evenkeel replay`: repeats the recorded picks, and says what another configuration would have done. Returns the exit code. */
export async function replay(command: ReplayCommand, write: (text: string) => void): Promise<number> {
  const dump = readDump(readFile(command.file));
  const balancer = chosen(dump, command.balancer);
  const { configuration } = balancer;
  const contents = contentsOf(balancer);
  const [head, settings] = summaryOf(dump, balancer, contents, new WallClock(dump, balancer));
  const { picks, same } = contents;
  const lines = [head ?? '', settings ?? '', ''];
  const isSame = configuration.picker === undefined || configuration.load === undefined || same === picks;
  if (configuration.picker === undefined) {
    lines.push('The picker is a function of the application: its picks cannot be replayed.');
  } else if (configuration.load === undefined) {
    lines.push('The load is a function of the application: picks that use it cannot be replayed.');
  } else lines.push(`Replayed with the same picker and load, ${same} of ${picks} picks are the same.`);
  write(`${lines.join('\n')}\n`);
  const changes = [command.picker, command.load, command.limit].some((change) => change !== undefined);
  if (!changes) return isSame ? 0 : 1;
  const traffic = trafficOf(balancer);
  if (traffic.calls.length === 0) throw new EvenkeelError('EVENKEEL_OPTION', 'no call ended during the recording');
  const model = fitService(traffic.calls);
  const before = alternativeOf(configuration);
  const after = alternativeOf({
    picker: madeOf('--picker', command.picker) ?? configuration.picker,
    load: madeOf('--load', command.load) ?? configuration.load,
    limit: command.limit === 'none' ? 'none' : (madeOf('--limit', command.limit) ?? configuration.limit),
  });
  const recorded = asRecorded(traffic);
  const modelled = typeof before === 'string' ? before : await whatIf(traffic, model, before);
  const rows: [string, Result | string][] = [
    ['recorded', recorded],
    ['the same, modelled', modelled],
  ];
  rows.push([
    `what if: ${[command.picker, command.load, command.limit].filter((text) => text !== undefined).join(', ')}`,
    typeof after === 'string' ? after : await whatIf(traffic, model, after),
  ]);
  write(
    `\n${[...resultsOf(rows), ...doubtsOf(recorded, modelled), '', ...assumptionsOf(traffic, model)].join('\n')}\n`,
  );
  return typeof after === 'string' ? 1 : 0;
}

interface Alternative {
  readonly picker?: Made | undefined;
  readonly load?: Made | undefined;
  readonly limit?: Made | 'none' | undefined;
}

/** Says why it cannot be modelled if part of it is the application's own. */
function alternativeOf({ picker, load, limit }: Alternative) {
  if (picker === undefined) return "its picker is the application's: give --picker";
  if (load === undefined) return "its load is the application's: give --load";
  if (limit === undefined) return "its limit is the application's: give --limit";
  return {
    picker: make.picker(picker),
    load: make.load(load),
    limit: limit === 'none' ? undefined : make.limit(limit),
  };
}

/** `p2c`, or `p2c:{"choices":2}`. Throws EVENKEEL_OPTION. */
function madeOf(option: string, text: string | undefined): Made | undefined {
  if (text === undefined) return undefined;
  const colon = text.indexOf(':');
  const name = colon === -1 ? text : text.slice(0, colon);
  let options: Record<string, unknown> = {};
  if (colon !== -1) {
    try {
      options = object(JSON.parse(text.slice(colon + 1)), 'options');
    } catch (error) {
      if (!(error instanceof SyntaxError) && !isEvenkeelError(error)) throw error;
      throw new EvenkeelError(
        'EVENKEEL_OPTION',
        `${option} must be a name, or a name and its options such as p2c:{"choices":2}, got ${quoted(text, 120)}`,
      );
    }
  }
  return { name, options };
}

function resultsOf(rows: readonly (readonly [string, Result | string])[]): string[] {
  const cells = rows.map(([name, result]) =>
    typeof result === 'string'
      ? [name, result]
      : [
          name,
          String(result.calls),
          String(result.failed),
          String(result.refused),
          ms(result.p50Ms),
          ms(result.p99Ms),
          result.maxOverMean.toFixed(2),
        ],
  );
  return table([['', 'calls', 'failed', 'refused', 'p50', 'p99', 'busiest pod / mean'], ...cells]);
}

/** The model has to reproduce what happened before it can be believed about anything else. */
function doubtsOf(recorded: Result, modelled: Result | string): string[] {
  if (typeof modelled === 'string') return [];
  const off = modelled.p99Ms / recorded.p99Ms;
  if (off > 1 / MOST_OFF && off < MOST_OFF) return [];
  return [
    '',
    `The model does not reproduce the recording: its 99th percentile is ${ms(modelled.p99Ms)} where ${ms(recorded.p99Ms)} was measured. Do not trust its other rows.`,
  ];
}

function assumptionsOf(
  { reports, retries, sets, calls }: Traffic,
  { discipline, rest, patienceMs }: ServiceModel,
): string[] {
  const { kind, places } = discipline;
  const how =
    places === Number.POSITIVE_INFINITY
      ? 'calls on a pod do not slow each other down'
      : kind === 'queue'
        ? `a pod works on ${places} calls at once, the others wait in order`
        : `calls on a pod share ${places} core${places === 1 ? '' : 's'}`;
  const lines = [
    'This is based on the recording, and assumes:',
    `- ${how}: under this, how long calls took depends least on how many were in flight (remaining correlation: ${rest.toFixed(2)})`,
    '- a call needs the same work on another pod, times how slow that pod was in the same second compared with the others',
    '- pods fail the same share of calls as they did in that second, whichever calls they get',
    Number.isFinite(patienceMs)
      ? `- callers give up after ${ms(patienceMs)}, the median of those that did`
      : '- callers wait as long as it takes: in the recording none gave up',
    `- calls arrive at the recorded times, whatever happened to earlier ones${retries > 0 ? `; so do ${retries} retries` : ''}`,
    `- which pods can be chosen, and when, is as recorded (${sets.length} sets)`,
    '- the load from other clients is part of how slow the pods were, and stays the same',
    ...(reports ? ['- pods report only calls of this client: others are not in the recording'] : []),
  ];
  if (Math.abs(rest) > MUCH_REST) {
    lines.push(
      'The remaining correlation is high: pods do not work as assumed. Trust only the order of the configurations, if that.',
    );
  }
  if (calls.length < 1_000) lines.push(`With ${calls.length} calls a 99th percentile says little.`);
  return lines;
}
