// @ts-check
/** The live view in the terminal: redrawn in place on a TTY, otherwise a few plain lines now and then. */
import { actions } from './actions.js';

/** @typedef {ReturnType<import('./playground.js').Playground['state']>} State */
/** @typedef {import('./state.js').ClientState} ClientState */
/** @typedef {NodeJS.WriteStream} Output */

const REDRAW_MS = 250;
const PLAIN_LINE_MS = 5_000;
const LOG_LINES = 4;
// Title, summary, keys and the empty lines between them.
const OTHER_LINES = 7;
const MAX_WIDTH = 150;
// A column narrower than this tells a pod's state with fewer letters.
const WIDE_COLUMN = 48;
const UNEVEN = 1.5;

/** Escape codes, or nothing where colour is not wanted. @param {boolean} on */
function palette(on) {
  /** @param {number} code */
  const paint = (code) => (/** @type {string} */ text) => (on ? `\x1b[${code}m${text}\x1b[0m` : text);
  return { bold: paint(1), dim: paint(2), red: paint(31), green: paint(32), yellow: paint(33), cyan: paint(36) };
}

/** @param {number | undefined} ms */
export const formatMs = (ms) => (ms === undefined ? '–' : ms < 10 ? ms.toFixed(1) : String(Math.round(ms)));
/** @param {number | undefined} ratio */
export const formatRatio = (ratio) => (ratio === undefined ? '–' : ratio.toFixed(2));

/** A bar of `width` cells, filled by a share from 0 to 1, to an eighth of a cell. @param {number} share @param {number} width */
function bar(share, width) {
  const eighths = Math.round(Math.min(Math.max(share, 0), 1) * width * 8);
  const partial = ' ▏▎▍▌▋▊▉'[eighths % 8] ?? '';
  return ('█'.repeat(Math.floor(eighths / 8)) + (eighths % 8 === 0 ? '' : partial)).padEnd(width);
}

/**
 * @param {State} state
 * @param {ClientState} client
 * @param {number} width cells
 * @param {ReturnType<typeof palette>} paint
 */
function column(state, client, width, paint) {
  const ready = state.pods.filter((pod) => pod.ready).length;
  const fair = ready === 0 ? 0 : Object.values(client.load).reduce((sum, load) => sum + load, 0) / ready;
  const connections = Object.values(client.openConnections).reduce((sum, count) => sum + count, 0);
  const narrow = width < WIDE_COLUMN;
  const labelWidth = narrow ? Math.min(12, Math.max(6, width - 22)) : 15;
  const barWidth = Math.max(4, width - labelWidth - 14);
  const rows = state.pods.map((pod) => {
    const rate = client.load[pod.name] ?? 0;
    const filled = bar(fair === 0 ? 0 : rate / (fair * 3), barWidth);
    const colour = fair > 0 && rate > fair * UNEVEN ? paint.red : rate < fair / UNEVEN ? paint.yellow : paint.cyan;
    const label = pod.state !== 'ready' ? pod.state : client.setAside.includes(pod.name) ? 'set aside' : '';
    return `${pod.shortName} ${colour(filled)} ${rate.toFixed(0).padStart(4)}${state.longLived ? '  ' : '/s'} ${paint.dim(label.slice(0, labelWidth).padEnd(labelWidth))}`;
  });
  const spread = `${formatRatio(client.maxOverMean)} ×`;
  const even = client.maxOverMean !== undefined && client.maxOverMean < UNEVEN;
  return [
    paint.bold(client.title.slice(0, width)),
    paint.dim(client.how.slice(0, width)),
    paint.dim(
      `${connections} connection${connections === 1 ? '' : 's'}, ${client.inFlight} ${narrow ? 'busy' : 'in flight'}`,
    ),
    ...rows,
    `${state.longLived ? 'fullest' : 'busiest'}${narrow ? '' : ' pod'} ${(even ? paint.green : paint.red)(spread)} ${narrow ? 'mean' : 'the mean'}`,
    `p50 ${formatMs(client.p50Ms)} ms${narrow ? '  ' : '   '}p99 ${formatMs(client.p99Ms)} ms`,
    client.errors === 0 ? paint.green('no errors') : paint.red(`${client.errors} errors`),
    ...(state.longLived ? [client.cut === 0 ? paint.green('none cut') : paint.red(`${client.cut} cut (1006)`)] : []),
  ];
}

/** The length of a line as it is seen. @param {string} text */
// biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes begin with a control character
const seenLength = (text) => text.replace(/\x1b\[\d+m/g, '').length;

/** @param {string} text @param {number} width */
const padTo = (text, width) => text + ' '.repeat(Math.max(0, width - seenLength(text)));

/** The protocols there are, the shown one in bold; nothing when there is only one. @param {State} state @param {ReturnType<typeof palette>} paint */
function tabs({ protocols, protocol }, paint) {
  if (protocols.length < 2) return '';
  const titles = protocols.map(({ name, title, starting }) => {
    if (starting) return paint.yellow(`${title} …`);
    return name === protocol ? paint.bold(title) : paint.dim(title);
  });
  return `${titles.join(' | ')}  `;
}

/** @param {State} state @param {readonly import('./log.js').LogEntry[]} log @param {{ columns: number, rows: number, colour: boolean, head: string }} look */
function draw(state, log, { columns, rows, colour, head }) {
  const paint = palette(colour);
  const width = Math.max(24, Math.floor(Math.min(columns, MAX_WIDTH) / state.clients.length) - 2);
  const sides = state.clients.map((client) => column(state, client, width, paint));
  const height = sides[0]?.length ?? 0;
  const ready = state.pods.filter((pod) => pod.ready).length;
  // On a low screen the log gives way to the pods.
  const logLines = Math.max(0, Math.min(LOG_LINES, rows - height - OTHER_LINES));
  return [
    `${paint.bold('evenkeel playground')}  ${tabs(state, paint)}${head}`,
    paint.dim(
      `${ready} of ${state.desired} pods ready, ${state.perSecond} ${state.requests}/s from each client${state.engine === undefined ? '' : `, ${state.engine}`}`,
    ),
    paint.yellow(state.busyMachine),
    ...Array.from({ length: height }, (_, index) => sides.map((side) => padTo(side[index] ?? '', width)).join('  ')),
    '',
    ...log
      .slice(log.length - logLines)
      .map((entry) => paint.dim(`${entry.at.toFixed(1).padStart(6)} s  ${entry.text}`)),
  ];
}

/**
 * @param {object} options
 * @param {Output} options.output
 * @param {NodeJS.ReadStream} options.input
 * @param {() => State} options.state
 * @param {import('./log.js').Log} options.log
 * @param {string} options.head what stands beside the title: the page's address
 * @param {(action: string) => void} options.act
 * @param {() => void} options.quit
 */
export function startTerminal({ output, input, state, log, head, act, quit }) {
  return output.isTTY ? redrawing() : plain();

  function redrawing() {
    const colour = process.env.NO_COLOR === undefined && output.hasColors();
    const offered = new Set(state().protocols.map(({ title }) => title));
    const keys = Object.entries(actions)
      .filter(([name, { label }]) => !name.startsWith('show-') || (offered.size > 1 && offered.has(label)))
      .map(([, { key, label }]) => `${key} ${label}`)
      .join('  ');
    const redraw = () => {
      const { columns = 80, rows = 24 } = output;
      const lines = [...draw(state(), log.entries, { columns, rows, colour, head }), '', `${keys}  q quit`];
      // One write, each line cleared to its end, so that nothing flickers; nothing that would scroll.
      output.write(
        `\x1b[H${lines
          .slice(0, rows - 1)
          .map((line) => `${line}\x1b[K`)
          .join('\n')}\n\x1b[J`,
      );
    };
    output.write('\x1b[?1049h\x1b[?25l\x1b[?7l'); // the other screen, no cursor, long lines cut
    const timer = setInterval(redraw, REDRAW_MS);
    /** @param {Buffer} data */
    const pressed = (data) => {
      const key = data.toString();
      if (key === '\x03' || key === 'q') return quit();
      const found = Object.entries(actions).find(([, action]) => action.key === key);
      if (found) act(found[0]);
    };
    if (input.isTTY) {
      input.setRawMode(true);
      input.on('data', pressed);
    }
    return () => {
      clearInterval(timer);
      if (input.isTTY) {
        input.setRawMode(false);
        input.off('data', pressed);
        input.pause();
      }
      output.write('\x1b[?7h\x1b[?25h\x1b[?1049l');
    };
  }

  function plain() {
    output.write(`evenkeel playground  ${head}\n`);
    log.listen((entry) => output.write(`${entry.at.toFixed(1)} s  ${entry.text}\n`));
    const timer = setInterval(() => {
      const now = state();
      for (const client of now.clients) output.write(`${plainLine(now, client)}\n`);
      if (now.busyMachine !== '') output.write(`${now.busyMachine}\n`);
    }, PLAIN_LINE_MS);
    return () => clearInterval(timer);
  }
}

/** One client in one line. @param {State} state @param {ClientState} client */
function plainLine(state, client) {
  const unit = state.longLived ? '' : '/s';
  const pods = state.pods.map((pod) => `${pod.shortName} ${(client.load[pod.name] ?? 0).toFixed(0)}${unit}`).join(', ');
  const cuts = state.longLived ? `  cut ${client.cut}` : '';
  return `${state.protocol} ${client.name.padEnd(11)}  max/mean ${formatRatio(client.maxOverMean)}  p50 ${formatMs(client.p50Ms)} ms  p99 ${formatMs(client.p99Ms)} ms  errors ${client.errors}${cuts}  (${pods})`;
}
