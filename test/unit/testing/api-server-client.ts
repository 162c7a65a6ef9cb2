import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';

/** A whole answer. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
  readonly json: Record<string, unknown> & {
    readonly items: Record<string, unknown>[];
    readonly metadata: Record<string, string>;
  };
}

export interface WatchEvent {
  readonly type: string;
  readonly object: Record<string, unknown> & { readonly metadata: Record<string, unknown> };
}

const slicesPath = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';

/** Opens a request; resolves with the response when its headers are there. */
export function open(
  url: string,
  query: string,
  headers: Record<string, string> = {},
  path: string = slicesPath,
  ca?: string,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.startsWith('https') ? httpsRequest : httpRequest)(`${url}${path}?${query}`, {
      headers,
      agent: false,
      ...(ca === undefined ? {} : { ca }),
    });
    request.on('response', resolve);
    request.on('error', reject);
    request.end();
  });
}

export async function get(
  url: string,
  query = '',
  headers: Record<string, string> = {},
  path?: string,
  ca?: string,
): Promise<Answer> {
  const response = await open(url, query, headers, path, ca);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  let json: unknown;
  try {
    json = JSON.parse(bytes.toString());
  } catch {
    json = undefined;
  }
  return { status: response.statusCode ?? 0, headers: response.headers, bytes, json: json as Answer['json'] };
}

/** A watch that remembers everything it received. */
export class RawWatch {
  readonly chunks: Buffer[] = [];
  readonly response: IncomingMessage;
  ended = false;
  error: Error | undefined;

  constructor(response: IncomingMessage) {
    this.response = response;
    response.on('data', (chunk: Buffer) => this.chunks.push(chunk));
    response.on('end', () => {
      this.ended = true;
    });
    response.on('error', (error) => {
      this.error = error;
    });
  }

  static async open(url: string, query = '', headers: Record<string, string> = {}): Promise<RawWatch> {
    return new RawWatch(await open(url, `watch=true&${query}`, headers));
  }

  get text(): string {
    return Buffer.concat(this.chunks).toString();
  }

  get events(): WatchEvent[] {
    return this.text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as WatchEvent);
  }

  get types(): string {
    return this.events.map((event) => event.type).join(' ');
  }

  close(): void {
    this.response.destroy();
  }
}
