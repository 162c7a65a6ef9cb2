import type { Dispatcher } from 'undici';
import { beforeEach, describe, expect, it } from 'vitest';
import { PendingRequest } from '../../../../src/adapter/undici/app-agent/pending-request.js';
import type { HandlerV2 } from '../../../../src/adapter/undici/handler.js';

/** What the caller and whoever has the request were told, in order. */
let told: string[];
let left: number;
let controller: Dispatcher.DispatchController;
/** The handler whoever has the request now was given. */
let relay: HandlerV2;

const caller: HandlerV2 = {
  onRequestStart: (given) => {
    controller = given;
    told.push('start');
  },
  onResponseStarted: () => told.push('first byte'),
  onResponseStart: (_controller, status, headers) => told.push(`head ${status} ${headers.etag}`),
  onResponseData: (_controller, chunk) => told.push(`data ${chunk}`),
  onResponseEnd: (_controller, trailers) => told.push(`end ${trailers.sum}`),
  onRequestUpgrade: (_controller, status) => told.push(`upgrade ${status}`),
  onResponseError: (_controller, error) => told.push(`error ${error.message}`),
  onBodySent: (chunk) => told.push(`sent ${chunk}`),
  onRequestSent: () => told.push('all sent'),
};
const owner = {
  abort: (reason: Error) => told.push(`owner: abort ${reason.message}`),
  pause: () => told.push('owner: pause'),
  resume: () => told.push('owner: resume'),
  aborted: false,
  paused: true,
  reason: null,
  rawHeaders: ['etag', 'x'],
  rawTrailers: ['sum', '4'],
} as unknown as Dispatcher.DispatchController;

const hold = (handler: HandlerV2 = caller): PendingRequest =>
  new PendingRequest('http://orders.shop:8080', { path: '/', method: 'GET' }, handler, () => {
    left++;
  });
const take = (_options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean => {
  relay = handler as HandlerV2;
  return true;
};

beforeEach(() => {
  told = [];
  left = 0;
});

it('reports the start once, and passes everything else on, in both directions', () => {
  const request = hold();
  request.begin();
  expect(told.splice(0)).toEqual(['start']);
  expect(controller).toMatchObject({
    aborted: false,
    reason: null,
    paused: false,
    rawHeaders: null,
    rawTrailers: null,
  });
  request.release(take);
  relay.onRequestStart(owner);
  relay.onBodySent?.('piece');
  relay.onRequestSent?.();
  relay.onResponseStarted?.();
  relay.onResponseStart?.(owner, 200, { etag: 'x' }, 'OK');
  relay.onResponseData?.(owner, Buffer.from('body'));
  controller.pause();
  controller.resume();
  expect(controller).toMatchObject({ paused: true, rawHeaders: ['etag', 'x'], rawTrailers: ['sum', '4'] });
  controller.rawHeaders = ['etag', 'y'];
  controller.rawTrailers = ['sum', '5'];
  expect(controller).toMatchObject({ rawHeaders: ['etag', 'y'], rawTrailers: ['sum', '5'] });
  relay.onResponseEnd?.(owner, { sum: '4' });
  expect(told).toEqual([
    'sent piece',
    'all sent',
    'first byte',
    'head 200 x',
    'data body',
    'owner: pause',
    'owner: resume',
    'end 4',
  ]);
  expect(left).toBe(1);
});

it('passes on an upgrade', () => {
  const request = hold();
  request.begin();
  request.release(take);
  relay.onRequestStart(owner);
  relay.onRequestUpgrade?.(owner, 101, {}, undefined as never);
  expect(told).toEqual(['start', 'upgrade 101']);
});

describe('an abort of a pending request', () => {
  it('ends it while it waits: it gets no dispatcher', () => {
    const request = hold();
    request.begin();
    controller.abort(new Error('enough'));
    controller.abort(new Error('again'));
    request.release(take);
    request.release(() => expect.unreachable());
    expect(told).toEqual(['start', 'error enough']);
    expect(controller).toMatchObject({ aborted: true, reason: { message: 'enough' } });
    expect(left).toBe(1);
  });

  it('ends it in its own start', () => {
    const request = hold({
      ...caller,
      onRequestStart: (given) => given.abort(new Error('never mind')),
    });
    request.begin();
    request.release(() => expect.unreachable());
    expect(told).toEqual(['error never mind']);
  });

  it('while the dispatcher opens a connection is reported at once, and later to the dispatcher', () => {
    const request = hold();
    request.begin();
    request.release(take);
    controller.abort(new Error('enough'));
    expect(told.splice(0)).toEqual(['start', 'error enough']);
    relay.onRequestStart(owner);
    relay.onResponseError?.(owner, new Error('enough'));
    expect(told).toEqual(['owner: abort enough']);
  });

  it('while it runs is passed to its dispatcher', () => {
    const request = hold();
    request.begin();
    request.release(take);
    relay.onRequestStart(owner);
    controller.abort(new Error('enough'));
    expect(told.splice(0)).toEqual(['start', 'owner: abort enough']);
    relay.onResponseError?.(owner, new Error('enough'));
    expect(told).toEqual(['error enough']);
  });
});

it('a pause before the request has a dispatcher is passed on when it has one', () => {
  const request = hold();
  request.begin();
  controller.pause();
  expect(controller.paused).toBe(true);
  request.release(take);
  relay.onRequestStart(owner);
  expect(told).toEqual(['start', 'owner: pause']);

  const other = hold();
  other.begin();
  controller.pause();
  controller.resume();
  other.release(take);
  relay.onRequestStart(owner);
  expect(told).toEqual(['start', 'owner: pause', 'start']);
});

it('an error thrown by the dispatcher ends the request; another error after it is ignored', () => {
  const request = hold();
  request.begin();
  request.release((options, handler) => {
    take(options, handler);
    throw new Error('out of order');
  });
  relay.onResponseError?.(owner, new Error('again'));
  expect(told).toEqual(['start', 'error out of order']);
});
