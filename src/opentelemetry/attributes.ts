import { type Attributes, type Span, SpanStatusCode } from '@opentelemetry/api';
import type { Outcome } from '../endpoint/outcome.js';
import type { TracedAttempt, TracedCall } from '../observe/traces.js';

/** A Service's name in the form of attributes of a span. */
interface ServerName {
  readonly 'server.address'?: string;
  readonly 'server.port'?: number;
}

/** How many Services' names are cached in parsed form. */
const MAX_REMEMBERED = 1_000;
const remembered = new Map<string, ServerName>();

/** Matches a Service's name with an optional scheme and port. */
const NAME = /^(?:[a-z][a-z0-9+.-]*:\/\/)?(\[[^\]]+\]|[^\s:/,[\]]+)(?::(\d+))?$/i;

/** Returns the attributes for a Service's name, which is an origin or `host:port`. */
function serverOf(service: string): ServerName {
  let server = remembered.get(service);
  if (server === undefined) {
    const [, host, port] = NAME.exec(service) ?? [];
    server = {
      ...(host !== undefined && { 'server.address': host.replace(/^\[(.*)\]$/, '$1') }),
      ...(port !== undefined && { 'server.port': Number(port) }),
    };
    if (remembered.size < MAX_REMEMBERED) remembered.set(service, server);
  }
  return server;
}

/** The attributes that a call's span has from its start. */
export function atCall({ target, protocol, method, service = target }: TracedCall): Attributes {
  return {
    'evenkeel.target': target,
    'evenkeel.protocol': protocol,
    ...(method !== undefined && { 'evenkeel.method': method }),
    ...serverOf(service),
  };
}

/** The attributes that an attempt's span has from its start. */
export function atAttempt({ call, endpoint, attempt, reason, waitedMs }: TracedAttempt): Attributes {
  const { address, port, name, uid, zone, nodeName } = endpoint;
  return {
    'evenkeel.target': call.target,
    ...serverOf(call.service ?? call.target),
    'network.peer.address': address,
    'network.peer.port': port,
    ...(name !== undefined && { 'k8s.pod.name': name }),
    ...(uid !== undefined && { 'k8s.pod.uid': uid }),
    ...(nodeName !== undefined && { 'k8s.node.name': nodeName }),
    ...(zone !== undefined && { 'evenkeel.zone': zone }),
    'evenkeel.attempt': attempt,
    'evenkeel.reason': reason,
    'evenkeel.wait.duration': waitedMs / 1000,
  };
}

/** The name of the attribute for a response's status, by protocol. */
const statusNames: ReadonlyMap<string, string> = new Map([
  ['http', 'http.response.status_code'],
  ['grpc', 'rpc.response.status_code'],
]);

/** Records on a span how its call or attempt ended. The caller ends the span. */
export function finish(
  span: Span,
  { outcome, error, status }: TracedCall | TracedAttempt,
  protocol: string,
  isError: boolean,
): void {
  const statusName = statusNames.get(protocol);
  const errorType = error === undefined ? undefined : typeOf(error);
  const type = errorType ?? (isError ? String(status ?? nameOf(outcome)) : undefined);
  span.setAttributes({
    'evenkeel.outcome': nameOf(outcome),
    ...(status !== undefined && statusName !== undefined && { [statusName]: status }),
    ...(type !== undefined && { 'error.type': type }),
  });
  if (!isError) return;
  const message = error === undefined ? undefined : messageOf(error);
  span.setStatus({ code: SpanStatusCode.ERROR, ...(message !== undefined && { message }) });
}

/** The name of an outcome in spans and metrics: its cause if there is one, otherwise its kind. */
function nameOf(outcome: Outcome | undefined): string {
  return outcome?.cause ?? outcome?.kind ?? 'unknown';
}

/**
 * The type of an error for a span: its code if it has one, otherwise the name of its class. A thrown value that is no error is not shown,
 * because it may contain anything.
 */
function typeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '_OTHER';
  const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
  if (typeof code === 'string' && code !== '') return code;
  return typeof name === 'string' && name !== '' ? name : '_OTHER';
}

function messageOf(error: unknown): string | undefined {
  const { message, details } = error as { readonly message?: unknown; readonly details?: unknown };
  const text = message ?? details;
  return typeof text === 'string' && text !== '' ? text : undefined;
}
