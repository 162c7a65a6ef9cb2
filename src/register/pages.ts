import { createServer, type RequestListener } from 'node:http';
import { createAdminHandler } from '../admin/index.js';
import { refusalOf } from '../admin/page-rules.js';
import { prometheusText } from '../metrics/index.js';

/** The address at which a page is served. */
export interface PageAddress {
  readonly host: string;
  readonly port: number;
}

/** Serves the admin page and the metrics at the addresses that the environment sets. Their servers do not keep the process alive. */
export function startPages(
  { admin, metrics }: { readonly admin?: PageAddress | undefined; readonly metrics?: PageAddress | undefined },
  say: (text: string) => void,
): void {
  const serve = (name: string, { host, port }: PageAddress, listener: RequestListener): void => {
    const server = createServer(listener);
    // Workers and forks inherit the environment, so several processes of a pod try to listen: the first of them serves the page, and the
    // others find the address in use.
    server.on('error', (error) => say(`${name} is not served: ${error.message}`));
    server.listen(port, host).unref();
  };
  if (admin !== undefined) serve('EVENKEEL_ADMIN', admin, createAdminHandler());
  if (metrics === undefined) return;
  prometheusText();
  serve('EVENKEEL_METRICS', metrics, (request, response) => {
    const refusal = refusalOf(request, new Set());
    if (refusal === undefined) response.setHeader('content-type', 'text/plain; version=0.0.4').end(prometheusText());
    else response.writeHead(refusal.status, { 'content-type': 'text/plain' }).end(`${refusal.text}\n`);
  });
}
