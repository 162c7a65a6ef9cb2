import type { OutgoingHttpHeaders } from 'node:http';
import { loadReportHeader } from '../load/orca.js';
import type { HttpResponse } from './http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** `writeHead` in both HTTP versions. */
type WriteHead = (this: HttpResponse, status: number, ...rest: unknown[]) => HttpResponse;

/**
 * Adds a report to the response. It is created when the head is written, as late as possible for a header.
 */
export function reportOn(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  if (response.headersSent) return;
  const { writeHead } = response as { readonly writeHead: WriteHead };
  let isWritten = false;
  const reporting: WriteHead = function (status, ...rest) {
    if (isWritten || response.headersSent) return writeHead.call(this, status, ...rest);
    isWritten = true;
    // The way Node and nearly everyone else calls it.
    if (rest.length === 0) {
      setReport(response, format, reporter);
      return writeHead.call(this, status);
    }
    return writeHead.call(this, status, ...withReport(response, rest, format, reporter));
  };
  // Replaces the method, because Node also calls it for responses whose head the application never writes.
  (response as { writeHead: WriteHead }).writeHead = reporting;
}

/** The header for a report in this format. */
const nameOf = (format: ReportFormat): string => (format === 'BIN' ? `${loadReportHeader}-bin` : loadReportHeader);

/** Sets the header, unless the application has set it. */
function setReport(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  const name = nameOf(format);
  if (!response.hasHeader(name)) response.setHeader(name, reporter.header(format));
}

/** The arguments of `writeHead` after the status, with the report in the headers argument, or set separately. */
function withReport(
  response: HttpResponse,
  rest: readonly unknown[],
  format: ReportFormat,
  reporter: LoadReporter,
): readonly unknown[] {
  const at = typeof rest[0] === 'string' || rest[0] === undefined || rest[0] === null ? 1 : 0;
  const headers = rest[at];
  // Node merges headers set earlier with those passed here, and loses lists of pairs when it does.
  const isMerged = typeof headers !== 'object' || headers === null || 'stream' in response;
  if (isMerged || response.getHeaderNames().length > 0) {
    setReport(response, format, reporter);
    return rest;
  }
  const name = nameOf(format);
  const value = reporter.header(format);
  const own = [...rest];
  own[at] = Array.isArray(headers)
    ? [...headers, ...(Array.isArray(headers[0]) ? [[name, value]] : [name, value])]
    : { [name]: value, ...(headers as OutgoingHttpHeaders) };
  return own;
}
