import type { Priority } from '../../index.js';
import type { RequestDeadline } from '../http/request-deadline.js';
import { formatDeadline, type Propagation, parseDeadline } from '../kit/index.js';
import type { OwnOptions } from './request-options.js';

/**
 * Says how long the caller will wait, from now on: never longer than what a header of the caller's says. The headers are ours to
 * change, and are changed again for each attempt.
 */
export function sayDeadline(own: OwnOptions, { deadlineHeader: name }: Propagation, deadline: RequestDeadline): void {
  if (name === undefined || own.upgrade || own.method === 'CONNECT') return;
  const { remainingMs } = deadline;
  const present = headerOf(own, name);
  const said = parseDeadline(present);
  if (said === undefined || remainingMs < said) setHeader(own, name, formatDeadline(remainingMs));
}

/** Says a priority that is not `default`, unless the caller does. */
export function sayPriority(own: OwnOptions, { priorityHeader }: Propagation, priority: Priority): void {
  if (priority === 'default' || priorityHeader === undefined) return;
  if (own.upgrade || own.method === 'CONNECT') return;
  if (headerOf(own, priorityHeader) === undefined) setHeader(own, priorityHeader, priority);
}

/** A header, by its name in lower case; a list as its first value. Not of headers that undici refuses. */
function headerOf(own: OwnOptions, wanted: string): unknown {
  const headers: unknown = own.headers;
  let found: unknown;
  if (Array.isArray(headers)) {
    for (let index = 0; index + 1 < headers.length; index += 2) {
      if (isName(headers[index], wanted)) found ??= headers[index + 1];
    }
  } else if (isRecord(headers)) {
    for (const name in headers) if (isName(name, wanted)) found ??= headers[name];
  }
  if (Array.isArray(found)) [found] = found;
  return Buffer.isBuffer(found) ? found.toString('latin1') : found;
}

/** What sets headers of a request for traces. Undefined for what is not HTTP for long. */
export function headerSetter(own: OwnOptions): ((name: string, value: string) => void) | undefined {
  if (own.upgrade || own.method === 'CONNECT') return undefined;
  return (name, value) => setHeader(own, name.toLowerCase(), value);
}

/** Sets a header, by its name in lower case. Headers of a form that undici refuses are left as they are. */
export function setHeader(own: OwnOptions, wanted: string, value: string): void {
  const headers: unknown = own.headers;
  if (headers === undefined || headers === null) own.headers = { [wanted]: value };
  else if (Array.isArray(headers)) {
    if (headers.length % 2 !== 0) return;
    for (let index = headers.length - 2; index >= 0; index -= 2) {
      if (isName(headers[index], wanted)) headers.splice(index, 2);
    }
    headers.push(wanted, value);
  } else if (isRecord(headers)) {
    for (const name in headers) if (isName(name, wanted)) delete headers[name];
    headers[wanted] = value;
  }
}

function isRecord(headers: unknown): headers is Record<string, unknown> {
  return typeof headers === 'object' && headers !== null && !(Symbol.iterator in headers);
}

function isName(name: unknown, wanted: string): boolean {
  if (typeof name !== 'string') return Buffer.isBuffer(name) && isName(name.toString('latin1'), wanted);
  return name.length === wanted.length && name.toLowerCase() === wanted;
}
