// @ts-check
/** The command line. */
import { parseArgs } from 'node:util';
import { pickers } from './clients/pickers.js';
import { MAX_PODS } from './cluster.js';
import { protocols } from './protocols.js';

const PICKERS = Object.keys(pickers);
const PROTOCOLS = protocols.map(({ name }) => name);

/** With `--once` all clients of all protocols send at the same time. */
const ONCE_PER_SECOND = 100;
/** Where the difference is plain. All protocols at the same time are much for two cores. */
const ONCE_PROTOCOLS = 'grpc';

export const USAGE = `evenkeel playground: the same traffic through ordinary clients and through evenkeel

  npm start                     live, here and on a web page, until Ctrl-C
  npm start -- --once           20 s: steady, scale up, kill -9, rolling update; then a table
                                (exit code 0, or 1 when evenkeel lost a request that the ordinary client did not)

Options, after "npm start --":
  --protocol <p>   one of ${PROTOCOLS.join(', ')}, several with commas between, or all
                   (live: all, one shown at a time, keys ${protocols.map(({ key }) => key).join(' ')}; with --once ${ONCE_PROTOCOLS})
  --pods <n>       pods to begin with, 1 to ${MAX_PODS}                   (5; with --once 3, at most ${MAX_PODS - 2})
  --rate <n>       requests per second of each client, 10 to 2000
                   (${protocols.map(({ title, perSecond }) => `${title} ${perSecond}`).join(', ')}; with --once at most ${ONCE_PER_SECOND}; fewer on a busy machine)
  --picker <name>  how evenkeel chooses: ${PICKERS.join(', ')}
                   (the library's default; WebSockets always go where the fewest are)
  --port <n>       port of the web page on 127.0.0.1        (8080, or any free one if that is taken)
  --no-page        no web page, the terminal only
  --open           open the page in the browser
  --minutes <n>    end by itself after this many minutes without anybody looking at the page  (30)
  --help           this text
`;

/** Something is wrong with the command line; the message says what. */
export class UsageError extends Error {}

/** @typedef {ReturnType<typeof readOptions>} Options */

/** @param {readonly string[]} args */
export function readOptions(args) {
  const values = parse(args);
  const once = values.once ?? false;
  if (once && (values.port !== undefined || values.open === true)) {
    throw new UsageError('--once shows no page, so it goes with neither --port nor --open');
  }
  if (values['no-page'] === true && (values.port !== undefined || values.open === true)) {
    throw new UsageError('--no-page goes with neither --port nor --open');
  }
  const { picker } = values;
  if (picker !== undefined && !PICKERS.includes(picker)) {
    throw new UsageError(`--picker must be one of ${PICKERS.join(', ')}, not "${picker}"`);
  }
  const asked = values.rate === undefined ? undefined : number('rate', values.rate, 0, 10, 2_000);
  return {
    /** Those that can be shown, the first to begin with. */
    protocols: protocolsOf(values.protocol ?? (once ? ONCE_PROTOCOLS : 'all')),
    help: values.help ?? false,
    once,
    pods: number('pods', values.pods, once ? 3 : 5, 1, once ? MAX_PODS - 2 : MAX_PODS),
    /** Of each client. A rate that was asked for stands; the default is lowered on a busy machine. @param {import('./protocols.js').Protocol} protocol */
    perSecondOf: (protocol) => asked ?? (once ? Math.min(ONCE_PER_SECOND, protocol.perSecond) : protocol.perSecond),
    lowerRate: asked === undefined,
    picker,
    /** Undefined = 8080, or any other when that is taken. */
    port: values.port === undefined ? undefined : number('port', values.port, 0, 0, 65_535),
    page: !once && values['no-page'] !== true,
    open: values.open ?? false,
    minutes: number('minutes', values.minutes, 30, 1, 1_440),
  };
}

/** @param {readonly string[]} args */
function parse(args) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: false,
      options: {
        help: { type: 'boolean', short: 'h' },
        once: { type: 'boolean' },
        protocol: { type: 'string' },
        pods: { type: 'string' },
        rate: { type: 'string' },
        picker: { type: 'string' },
        port: { type: 'string' },
        'no-page': { type: 'boolean' },
        open: { type: 'boolean' },
        minutes: { type: 'string' },
      },
    }).values;
  } catch (error) {
    // Node's message is good in its first sentence; the rest is about positional arguments.
    const [sentence = ''] = (error instanceof Error ? error.message : String(error)).split('. ');
    throw new UsageError(sentence);
  }
}

/** @param {string} text names with commas between, or `all` */
function protocolsOf(text) {
  const names = text === 'all' ? PROTOCOLS : text.split(',').map((name) => name.trim());
  const unknown = names.find((name) => !PROTOCOLS.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--protocol must be some of ${PROTOCOLS.join(', ')}, or all, not "${unknown}"`);
  }
  return protocols.filter(({ name }) => names.includes(name));
}

/** @param {string} name @param {string | undefined} text @param {number} fallback @param {number} min @param {number} max */
function number(name, text, fallback, min, max) {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (text.trim() === '' || !Number.isInteger(value) || value < min || value > max) {
    throw new UsageError(`--${name} must be a whole number from ${min} to ${max}, not "${text}"`);
  }
  return value;
}
