import type { OutgoingHttpHeaders } from 'node:http';
import { loadReportHeader, reportsHeader } from '../load/orca.js';
import type { HttpResponse } from './http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** `writeHead` in both HTTP versions. */
type WriteHead = (this: HttpResponse, status: number, ...rest: unknown[]) => HttpResponse;

/** Adds a report to the response. It is created when the head is written, as late as possible for a header. */
export function reportOn(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  addToHead(response, nameOf(format), () => reporter.header(format));
}

/** The name of the header for a load report in this format. */
export function nameOf(format: ReportFormat): string {
  return format === 'BIN' ? `${loadReportHeader}-bin` : loadReportHeader;
}

/** Says in the response that requests may ask for a report. */
export function announceOn(response: HttpResponse, mark: string): void {
  addToHead(response, reportsHeader, () => mark);
}

/** Adds a header to the response when the response's head is written, unless the application has set that header. */
function addToHead(response: HttpResponse, name: string, value: () => string): void {
  if (response.headersSent) return;
  const { writeHead } = response as { readonly writeHead: WriteHead };
  let isWritten = false;
  const adding: WriteHead = function (status, ...rest) {
    if (isWritten || response.headersSent) return writeHead.call(this, status, ...rest);
    isWritten = true;
    // This is the form in which Node and nearly everyone else calls `writeHead`.
    if (rest.length === 0) {
      if (!response.hasHeader(name)) response.setHeader(name, value());
      return writeHead.call(this, status);
    }
    return writeHead.call(this, status, ...withHeader(response, rest, name, value));
  };
  // The method is replaced, because Node also calls it for responses whose head the application never writes.
  (response as { writeHead: WriteHead }).writeHead = adding;
}

/** The arguments of `writeHead` after the status, with the header in the headers argument, or set separately. */
function withHeader(
  response: HttpResponse,
  rest: readonly unknown[],
  name: string,
  value: () => string,
): readonly unknown[] {
  const at = typeof rest[0] === 'string' || rest[0] === undefined || rest[0] === null ? 1 : 0;
  const headers = rest[at];
  // Node merges headers set earlier with those passed here, and loses lists of pairs when it does.
  const isMerged = typeof headers !== 'object' || headers === null || 'stream' in response;
  if (isMerged || response.getHeaderNames().length > 0) {
    if (!response.hasHeader(name)) response.setHeader(name, value());
    return rest;
  }
  const own = [...rest];
  own[at] = Array.isArray(headers)
    ? [...headers, ...(Array.isArray(headers[0]) ? [[name, value()]] : [name, value()])]
    : { [name]: value(), ...(headers as OutgoingHttpHeaders) };
  return own;
}
