import { loadReportPath } from '../load/orca.js';
import { nameOf } from './http-report.js';
import type { HttpRequest, HttpResponse } from './http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** Whether a request may be a probe; it is one if it also has the header that asks for a report. */
export function mayBeProbe({ url, method }: HttpRequest): boolean {
  // Comparing lengths rules out nearly all requests.
  return url?.length === loadReportPath.length && url === loadReportPath && method === 'GET';
}

/** Answers a probe before the application sees it, and does not count it. */
export function answerProbe(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  response.statusCode = 204;
  response.setHeader(nameOf(format), reporter.header(format));
  response.end();
}
