import type { OutgoingHttpHeaders } from 'node:http';
import { loadReportHeader, reportsHeader } from '../../load/orca.js';
import type { HttpResponse } from '../http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** The method `writeHead`, in a form that fits both HTTP versions. */
type WriteHead = (this: HttpResponse, status: number, ...rest: unknown[]) => HttpResponse;

/** Adds a load report to the response. The report is created when the head is written, as late as a header can be. */
export function reportOn(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  addToHead(response, nameOf(format), () => reporter.header(format));
}

/** The name of the header for a load report in this format. */
export function nameOf(format: ReportFormat): string {
  return format === 'BIN' ? `${loadReportHeader}-bin` : loadReportHeader;
}

/** Announces in the response that requests may ask for a load report. */
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
    // Node itself, and nearly everyone else, calls `writeHead` with the status alone.
    if (rest.length === 0) {
      if (!response.hasHeader(name)) response.setHeader(name, value());
      return writeHead.call(this, status);
    }
    return writeHead.call(this, status, ...withHeader(response, rest, name, value));
  };
  // The method is replaced, because Node also calls it for responses whose head the application does not write itself.
  (response as { writeHead: WriteHead }).writeHead = adding;
}

/** Adds the header to the headers in the arguments of `writeHead`, or sets it separately. Returns the arguments after the status. */
function withHeader(
  response: HttpResponse,
  rest: readonly unknown[],
  name: string,
  value: () => string,
): readonly unknown[] {
  const at = typeof rest[0] === 'string' || rest[0] === undefined || rest[0] === null ? 1 : 0;
  const headers = rest[at];
  // Node merges the headers in the arguments with headers that were set before, and when it does so it loses lists of pairs.
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
