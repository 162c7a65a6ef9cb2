import type { OutgoingHttpHeaders } from 'node:http';
import { loadReportFormatHeader, loadReportHeader } from '../load/orca.js';
import type { HttpRequest, HttpResponse } from './http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** What `writeHead` of both HTTP versions takes. */
type WriteHead = (this: HttpResponse, status: number, ...rest: unknown[]) => HttpResponse;

/**
 * Has the response carry a report if the request asks for one. It is made when the head of the response is written, which is as
 * late as a header can say anything.
 */
export function reportOn(request: HttpRequest, response: HttpResponse, reporter: LoadReporter): void {
  const format = formatAskedFor(request);
  if (format === undefined || response.headersSent) return;
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

/** Looks at the headers as they came: Node makes an object of them only when somebody asks for it, which costs more than all this. */
function formatAskedFor({ rawHeaders }: HttpRequest): ReportFormat | undefined {
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length !== loadReportFormatHeader.length || name.toLowerCase() !== loadReportFormatHeader) continue;
    return formatOf(rawHeaders[index + 1] as string);
  }
  return undefined;
}

function formatOf(asked: string): ReportFormat | undefined {
  if (asked === 'TEXT') return asked;
  switch (asked.trim().toUpperCase()) {
    case 'TEXT':
      return 'TEXT';
    case 'JSON':
      return 'JSON';
    case 'BIN':
      return 'BIN';
    default:
      return undefined;
  }
}

const nameOf = (format: ReportFormat): string => (format === 'BIN' ? `${loadReportHeader}-bin` : loadReportHeader);

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
