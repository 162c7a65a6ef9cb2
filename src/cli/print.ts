import type { Diagnosis, Line } from './report.js';

const marks = { ok: 'ok  ', note: '    ', warn: 'warn', fail: 'FAIL' } as const;
const outcomes = { fine: 'All is well', degraded: 'It works, but', unusable: 'It does not work' } as const;

/** Formats the report of `evenkeel doctor` as text that ends with a line feed. */
export function printReport(target: string, diagnosis: Diagnosis): string {
  const { outcome, summary, todo } = diagnosis;
  const parts = [
    `${target}\n${outcomes[outcome]}: ${summary}\n`,
    section('EndpointSlices', diagnosis.api),
    section('DNS', diagnosis.dns),
    section('What evenkeel uses', diagnosis.use),
    section('Connections', diagnosis.connections),
    section('Clients of the app', diagnosis.process),
    todo.length === 0 ? '' : `\nWhat to do\n${todo.map(numbered).join('')}`,
  ];
  return parts.join('');
}

function section(title: string, lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  return `\n${title}\n${lines.map(({ mark, text }) => `  ${marks[mark]}  ${text}\n`).join('')}`;
}

/** Formats a numbered item of the report. Only its first line is indented, because the other lines are meant to be copied. */
function numbered(text: string, index: number): string {
  const [first, ...rest] = text.split('\n');
  return `  ${index + 1}. ${[first, ...rest].join('\n')}\n`;
}
