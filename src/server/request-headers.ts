import { loadReportFormatHeader } from '../load/orca.js';
import { parseDeadline } from '../propagation/propagated.js';
import type { ReportFormat } from './report/load-reporter.js';

/** Compared with header names in place of a header that is not to be read. No header has this name. */
const NONE = ' ';

/** The names of the headers to read; undefined = this header is not read. */
export interface HeaderNames {
  readonly deadline: string | undefined;
  readonly priority: string | undefined;
}

/**
 * Reads what a request's headers tell the pod. It reads the raw headers, because Node creates the headers object only on access, which
 * costs more than all of this. One object serves all requests, so its values must be used before the next request is read.
 */
export class RequestHeaders {
  format: ReportFormat | undefined;
  deadlineMs: number | undefined;
  priority: string | undefined;
  readonly #deadline: string;
  readonly #priority: string;

  constructor({ deadline = NONE, priority = NONE }: HeaderNames) {
    this.#deadline = deadline;
    this.#priority = priority;
  }

  read(rawHeaders: readonly string[]): void {
    this.format = undefined;
    this.deadlineMs = undefined;
    this.priority = undefined;
    const deadline = this.#deadline;
    const priority = this.#priority;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      const name = rawHeaders[index] as string;
      const { length } = name;
      if (length === loadReportFormatHeader.length && isName(name, loadReportFormatHeader)) {
        this.format ??= formatOf(rawHeaders[index + 1] as string);
      } else if (length === deadline.length && isName(name, deadline)) {
        const deadlineMs = parseDeadline(rawHeaders[index + 1]);
        // If a request has a second deadline header, it can only shorten the first, whoever added it.
        if (deadlineMs !== undefined) this.deadlineMs = Math.min(deadlineMs, this.deadlineMs ?? deadlineMs);
      } else if (length === priority.length && isName(name, priority)) {
        this.priority ??= rawHeaders[index + 1] as string;
      }
    }
  }
}

function isName(name: string, wanted: string): boolean {
  return name === wanted || name.toLowerCase() === wanted;
}

function formatOf(header: string): ReportFormat | undefined {
  if (header === 'TEXT') return header;
  switch (header.trim().toUpperCase()) {
    case 'TEXT':
      return 'TEXT';
    case 'BIN':
      return 'BIN';
    default:
      return undefined;
  }
}
