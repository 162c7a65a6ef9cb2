import { optionError } from '../kit/index.js';

/** Schemes of target strings; anything else before the first colon is a host. */
const SCHEMES = ['kubernetes', 'dns', 'static'];

/** Checks the user's name of the Service. Throws EVENKEEL_OPTION. */
export function checkService(service: unknown): string {
  if (typeof service !== 'string' || !/^[^\s/?#@]+$/.test(service)) {
    throw optionError('service', 'a Service such as orders.shop:50051', service);
  }
  return service;
}

/**
 * `:authority` and the name for TLS: the Service's own host and port, whatever the pod. A named port is left out, because an authority
 * cannot contain one; for a static list it is the first address.
 */
export function authorityOf(service: string): string {
  const [scheme = '', ...rest] = service.split(':');
  const plain = SCHEMES.includes(scheme) && rest.length > 0 ? rest.join(':') : service;
  const [first = plain] = plain.split(',');
  const named = /^(.*):([^\]:]*)$/.exec(first);
  return named !== null && !/^\d+$/.test(named[2] as string) ? (named[1] as string) : first;
}
