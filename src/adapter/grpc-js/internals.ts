/**
 * Every part of grpc-js that evenkeel uses and grpc-js's documentation or types do not promise. `grpc.experimental` is exported for authors
 * of resolvers and policies, and is used throughout this folder as its types say. Each part was seen in 1.14.0 and 1.14.7, which the tests
 * run against. No upstream issue was found for any of them.
 */
import type { ClientHttp2Session } from 'node:http2';
import {
  type Channel,
  type ChannelInterface,
  type ChannelOptions,
  Client,
  credentials,
  experimental,
  type Metadata,
} from '@grpc/grpc-js';

/** A call as grpc-js's `Channel.createCall` returns it. */
export type ChannelCall = ReturnType<Channel['createCall']>;
/** What a config selector of grpc-js returns for a call. */
export type CallConfig = ReturnType<experimental.ConfigSelector['invoke']>;

const { SUBCHANNEL_ARGS_EXCLUDE_KEY_PREFIX: HIDDEN } = experimental;

/**
 * Returns the name for a channel option, or for an attribute of a resolution, that only evenkeel reads. Without its prefix, the option
 * would make subchannels different, and channels would share no connections.
 */
export function hiddenName(name: string): string {
  return `${HIDDEN}.evenkeel.${name}`;
}

/** Whether grpc-js leaves this channel option out of the arguments of subchannels. */
export function isHidden(name: string): boolean {
  return name.startsWith(HIDDEN);
}

/**
 * Returns what a resolver of grpc-js publishes besides addresses, with the config selector that is to configure each call. Without that
 * selector, a call could not be followed through its attempts.
 */
export function resolutionWith(selector: experimental.ConfigSelector, own: Record<string, unknown>): ChannelOptions {
  return { ...own, [experimental.CHANNEL_ARGS_CONFIG_SELECTOR_KEY]: selector };
}

/**
 * Uses an object as pick information: grpc-js passes it to the picker unchanged, for every attempt of a call, although its types want
 * strings. Without this, a picker could not tell which picks belong to one call.
 */
export function asPickInformation(call: object): CallConfig['pickInformation'] {
  return call as unknown as CallConfig['pickInformation'];
}

/** The pick information that the config selector set for this pick; an application's own selector may have set it. */
export function pickInformationOf({ extraPickInfo }: experimental.PickArgs): unknown {
  return extraPickInfo;
}

/** Makes a call run `begin` before it starts. Without this, what a channel adds to calls would have to be an interceptor of each client. */
export function beginWith(
  call: ChannelCall,
  begin: (start: ChannelCall['start'], ...args: Parameters<ChannelCall['start']>) => void,
): void {
  const start = call.start.bind(call);
  call.start = (metadata, listener) => begin(start, metadata, listener);
}

/**
 * Copies a call's metadata and gives the copy an identity: the object of its options. Of everything a call starts with, only this object
 * reaches the config selector unchanged. Without this, a call that is traced from its start would get a second trace there.
 */
export function identifiable(metadata: Metadata): Metadata {
  const copy = metadata.clone();
  copy.setOptions({ ...copy.getOptions() });
  return copy;
}

/** The object that identifies this metadata, if `identifiable` made it. */
export function identityOf(metadata: Metadata): object {
  return metadata.getOptions();
}

/**
 * Creates a client whose calls go over this channel of a subchannel, which has its credentials and address. Without this, a server could
 * not be asked for its health over the very connection that calls use.
 */
export function clientOver(channel: ChannelInterface): Client {
  return new Client('unused', credentials.createInsecure(), { channelOverride: channel });
}

/** Makes a subchannel connect now although it waits after a failed attempt. Without this, grpc-js's pauses would be added to the pool's. */
export function endBackoff(subchannel: experimental.SubchannelInterface): void {
  subchannel.getRealSubchannel().resetBackoff();
}

/** The setting of a server without a limit on streams: all bits set. */
const NO_LIMIT = 2 ** 32 - 1;

/** The part of a grpc-js subchannel that holds its connection. */
interface Connected {
  readonly transport?: { readonly session?: Pick<ClientHttp2Session, 'remoteSettings'> | null } | null;
}

/**
 * How many streams the server of a connected subchannel allows on its connection; Infinity if it has no limit. grpc-js calls a subchannel
 * READY when it has the server's settings, and keeps the connection in the subchannel just after that. Without this, calls above the limit
 * would wait on the connection although other servers have room.
 */
export function allowedStreams(subchannel: experimental.SubchannelInterface): number {
  const { transport } = subchannel.getRealSubchannel() as unknown as Connected;
  const { maxConcurrentStreams: allowed = NO_LIMIT } = transport?.session?.remoteSettings ?? {};
  return allowed === NO_LIMIT ? Number.POSITIVE_INFINITY : allowed;
}

/**
 * Matches grpc-js's message for REFUSED_STREAM, and that of Node.js from 26 on for a request that was being written when it was refused.
 */
const REFUSED = /^Stream refused by server$|NGHTTP2_REFUSED_STREAM$/;

/**
 * Whether the details of an UNAVAILABLE status say that the server refused the stream, as it does with streams that a GOAWAY overtook:
 * grpc-js retries these itself. Without this, they would count as lost connections.
 */
export function isRefusedStream(details: string): boolean {
  return REFUSED.test(details);
}

/** The metadata entry in which grpc-js writes how many attempts its own retry policy made before the current one. */
export const previousAttempts = 'grpc-previous-rpc-attempts';

/**
 * Whether grpc-js made a status itself: a server's trailers contain at least a content type, and grpc-js adds its count of attempts to
 * both. Without this, servers would be blamed for errors of this client.
 */
export function isOwnStatus(trailers: Metadata): boolean {
  return Object.keys(trailers.getMap()).every((name) => name === previousAttempts);
}

/**
 * A retry policy for methods without one. grpc-js by itself repeats a refused call once. When several servers send GOAWAY at one time,
 * calls are refused twice, which is no reason to fail, because no server has seen them. With this policy grpc-js asks the picker about
 * every call that is UNAVAILABLE, and the picker rejects those that a server may have seen. The picker also decides how often, because no
 * number of attempts reaches NaN; grpc-js would count to five.
 */
export const repeatRefused: NonNullable<CallConfig['methodConfig']['retryPolicy']> = Object.freeze({
  maxAttempts: Number.NaN,
  initialBackoff: '0s',
  maxBackoff: '0s',
  backoffMultiplier: 1,
  retryableStatusCodes: Object.freeze(['UNAVAILABLE']) as never,
});
