import { isIP, isIPv6 } from 'node:net';
import { EvenkeelError } from '../errors.js';
import { quoted } from '../runtime/check.js';
import { isHostName, isLocalhost, parseServiceHost, type ServiceHost } from './cluster-domain.js';

/** The parts of a target string. A port is a number or the name of a Service's port. */
export type Target =
  | { readonly kind: 'kubernetes'; readonly service: ServiceHost; readonly port: number | string }
  | { readonly kind: 'dns' | 'plain'; readonly host: string; readonly port: number | string }
  | { readonly kind: 'static'; readonly endpoints: readonly { readonly address: string; readonly port: number }[] };

const shapes = {
  kubernetes: 'kubernetes:<service>.<namespace>:<port name or number>',
  dns: 'dns:<host>:<port name or number>',
  static: 'static:<ip>:<port>, more of them after commas',
  plain: '<service>.<namespace>:<port>',
} as const;

/**
 * Parses a target string, which has one of these forms:
 *
 * target = "kubernetes:" host ":" port | "dns:" host ":" port | "static:" ip ":" number *( "," ip ":" number ) | host ":" port
 *
 * Throws EVENKEEL_OPTION with the expected form and the part that does not fit it.
 */
export function parseTarget(value: string): Target {
  const text = value.trim();
  if (text === '')
    throw targetError(value, `${shapes.plain}, ${shapes.kubernetes}, ${shapes.dns} or ${shapes.static}`, 'it is empty');
  const url = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text);
  if (url !== null)
    throw targetError(value, shapes.plain, `it is a URL; leave out "${url[0]}" and everything after the port`);
  const [, scheme, rest] = /^(kubernetes|dns|static):(.*)$/.exec(text) ?? [];
  // A target such as "dns:53" means port 53 of a Service called dns, because nothing but a number follows.
  if (rest === undefined || /^\d+$/.test(rest)) return { kind: 'plain', ...hostAndPort(value, text, shapes.plain) };
  switch (scheme as 'kubernetes' | 'dns' | 'static') {
    case 'dns':
      return { kind: 'dns', ...hostAndPort(value, rest, shapes.dns) };
    case 'kubernetes': {
      const { host, port } = hostAndPort(value, rest, shapes.kubernetes);
      const service = parseServiceHost(host);
      if (service === undefined) throw targetError(value, shapes.kubernetes, `"${host}" is not the name of a Service`);
      return { kind: 'kubernetes', service, port };
    }
    case 'static':
      return { kind: 'static', endpoints: rest.split(',').map((piece) => staticEndpoint(value, piece.trim())) };
  }
}

function staticEndpoint(value: string, piece: string): { readonly address: string; readonly port: number } {
  if (piece === '') throw targetError(value, shapes.static, 'there is nothing between two commas');
  const { host, port } = hostAndPort(value, piece, shapes.static);
  if (typeof port === 'string') throw targetError(value, shapes.static, `"${port}" is no port number`);
  if (isLocalhost(host)) return { address: '127.0.0.1', port };
  if (isIP(host) === 0)
    throw targetError(value, shapes.static, `"${host}" is no IP address; dns:${piece} would look it up`);
  return { address: host, port };
}

function hostAndPort(
  value: string,
  text: string,
  shape: string,
): { readonly host: string; readonly port: number | string } {
  const fail = (what: string): EvenkeelError => targetError(value, shape, what);
  const slash = /[/?#@]/.exec(text);
  if (slash !== null) throw fail(`"${slash[0]}" is no part of a host and port`);
  if (isIPv6(text)) throw fail(`an IPv6 address goes into brackets, with a port after it: [${text}]:80`);
  const bracketed = /^\[([^\]]*)\](?::(.*))?$/.exec(text);
  if (bracketed !== null) {
    const [, address = '', port] = bracketed;
    if (!isIPv6(address)) throw fail(`"[${address}]" is no IPv6 address`);
    if (port === undefined) throw fail('the port is missing');
    return { host: address, port: readPort(port, fail) };
  }
  const colon = text.lastIndexOf(':');
  if (colon === -1) throw fail('the port is missing');
  const host = text.slice(0, colon);
  if (isIP(host) === 0 && !isHostName(host))
    throw fail(host === '' ? 'the host is missing' : `"${host}" is no host name`);
  return { host: isIP(host) === 0 ? host.toLowerCase() : host, port: readPort(text.slice(colon + 1), fail) };
}

function readPort(text: string, fail: (what: string) => EvenkeelError): number | string {
  if (text === '') throw fail('the port is missing');
  if (/^\d+$/.test(text)) {
    const port = Number(text);
    if (port < 1 || port > 65_535) throw fail(`${text} is no port from 1 to 65535`);
    return port;
  }
  // A port name is checked by the rules of Kubernetes. It must contain a letter, which tells it from a number.
  if (!/^(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(text)) throw fail(`"${text}" is no port name or number`);
  return text.toLowerCase();
}

function targetError(value: string, shape: string, what: string): EvenkeelError {
  return new EvenkeelError('EVENKEEL_OPTION', `target must be ${shape}, got ${quoted(value, 120)}: ${what}`);
}
