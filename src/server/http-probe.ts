import { loadReportPath } from '../load/orca.js';
import { nameOf } from './http-report.js';
import type { HttpRequest, HttpResponse } from './http-requests.js';
import type { LoadReporter, ReportFormat } from './load-reporter.js';

/** Whether a request may be one that only asks how busy this pod is: if it has the header that asks. */
export function mayBeProbe({ url, method }: HttpRequest): boolean {
  // Nearly every request differs in length.
  return url?.length === loadReportPath.length && url === loadReportPath && method === 'GET';
}

/** Answers it: before the application, which has nothing to do with it, and uncounted. */
export function answerProbe(response: HttpResponse, format: ReportFormat, reporter: LoadReporter): void {
  response.statusCode = 204;
  response.setHeader(nameOf(format), reporter.header(format));
  response.end();
}
