import type { OutgoingHttpHeaders } from 'node:http';
import { loadReportHeader } from '../load/orca.js';
import type { HttpResponse } from './http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** What `writeHead` of both HTTP versions takes. */
type WriteHead = (this: HttpResponse, status: number, ...rest: unknown[]) => HttpResponse;

/**
 * Has the response carry a report. It is made when the head of the response is written, which is as late as a header can say
 * anything.
 */
export function reportOn(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  if (response.headersSent) return;
  const { writeHead } = response as { readonly writeHead: WriteHead };
  let isWritten = false;
  const reporting: WriteHead = function (status, ...rest) {
    if (isWritten || response.headersSent) return writeHead.call(this, status, ...rest);
    isWritten = true;
    // As Node calls it, and nearly everybody else.
    if (rest.length === 0) {
      setReport(response, format, reporter);
      return writeHead.call(this, status);
    }
    return writeHead.call(this, status, ...withReport(response, rest, format, reporter));
  };
  // In place of the method, as Node calls it for a response whose head nobody writes himself.
  (response as { writeHead: WriteHead }).writeHead = reporting;
}

/** The header a report of this form is sent in. */
export const nameOf = (format: ReportFormat): string =>
  format === 'BIN' ? `${loadReportHeader}-bin` : loadReportHeader;

/** Sets the header, unless the application has. */
function setReport(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  const name = nameOf(format);
  if (!response.hasHeader(name)) response.setHeader(name, reporter.header(format));
}

/** The arguments of `writeHead` after the status, with the report among the headers, or set beside them. */
function withReport(
  response: HttpResponse,
  rest: readonly unknown[],
  format: ReportFormat,
  reporter: LoadReporter,
): readonly unknown[] {
  const at = typeof rest[0] === 'string' || rest[0] === undefined || rest[0] === null ? 1 : 0;
  const headers = rest[at];
  // Node merges what was set before and what is passed here, and loses lists of pairs in doing so.
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
