/**
 * Everything that grpc-js does not document and evenkeel uses. `grpc.experimental` is exported for authors of resolvers and policies, and is
 * used throughout this folder as its types say; here stands what these do not promise. Each trick was seen in 1.14.0 and 1.14.7, which
 * the tests run against. No upstream issue was found for any of them.
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
 * The name of a channel option, or an attribute of a resolution, that only evenkeel reads. Without its prefix, it would be part of what
 * makes two subchannels different, and channels would share no connections.
 */
export function hiddenName(name: string): string {
  return `${HIDDEN}.evenkeel.${name}`;
}

/** Whether grpc-js leaves this channel option out of the arguments of subchannels. */
export function isHidden(name: string): boolean {
  return name.startsWith(HIDDEN);
}

/**
 * What a resolver of grpc-js publishes besides addresses, with the config selector that is to configure each call. Without that selector, a
 * call could not be followed through its attempts.
 */
export function resolutionWith(selector: experimental.ConfigSelector, own: Record<string, unknown>): ChannelOptions {
  return { ...own, [experimental.CHANNEL_ARGS_CONFIG_SELECTOR_KEY]: selector };
}

/**
 * An object as pick information: grpc-js passes it to the picker unchanged, for every attempt of a call, though its types want strings.
 * Without it, a picker could not tell which picks are for one call.
 */
export function asPickInformation(call: object): CallConfig['pickInformation'] {
  return call as unknown as CallConfig['pickInformation'];
}

/** The pick information that the config selector set for this pick. It may be that of an application's own selector. */
export function pickInformationOf({ extraPickInfo }: experimental.PickArgs): unknown {
  return extraPickInfo;
}

/** Makes a call run `begin` first. Without it, what a channel adds to calls would have to be an interceptor of each of its clients. */
export function beginWith(
  call: ChannelCall,
  begin: (start: ChannelCall['start'], ...args: Parameters<ChannelCall['start']>) => void,
): void {
  const start = call.start.bind(call);
  call.start = (metadata, listener) => begin(start, metadata, listener);
}

/**
 * A copy of a call's metadata that has an identity: the object of its options. Of everything a call starts with, only this object reaches
 * the config selector unchanged. Without it, a call that is traced from its start would be another one for the selector.
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
 * A client whose calls go over this channel of a subchannel, which has its credentials and address. Without it, a server could not be asked
 * for its health over the very connection that calls use.
 */
export function clientOver(channel: ChannelInterface): Client {
  return new Client('unused', credentials.createInsecure(), { channelOverride: channel });
}

/** Makes a subchannel connect now although it waits after a failed attempt. Without it, grpc-js's pauses would be added to the pool's. */
export function endBackoff(subchannel: experimental.SubchannelInterface): void {
  subchannel.getRealSubchannel().resetBackoff();
}

/** What a server announces that has no limit on streams: all bits set. */
const NO_LIMIT = 2 ** 32 - 1;

/** The connection of a subchannel, as grpc-js keeps it. */
interface Connected {
  readonly transport?: { readonly session?: Pick<ClientHttp2Session, 'remoteSettings'> | null } | null;
}

/**
 * How many streams the server of a connected subchannel allows on its connection; Infinity if it has no limit. grpc-js calls a subchannel
 * READY when it has the server's settings, and keeps the connection in the subchannel just after that. Without it, calls above the limit
 * would wait on the connection although other servers have room.
 */
export function allowedStreams(subchannel: experimental.SubchannelInterface): number {
  const { transport } = subchannel.getRealSubchannel() as unknown as Connected;
  const { maxConcurrentStreams: allowed = NO_LIMIT } = transport?.session?.remoteSettings ?? {};
  return allowed === NO_LIMIT ? Number.POSITIVE_INFINITY : allowed;
}

/** The message of grpc-js for REFUSED_STREAM, and of Node.js from 26 on if it hits a request that is being written. */
const REFUSED = /^Stream refused by server$|NGHTTP2_REFUSED_STREAM$/;

/**
 * Whether the details of an UNAVAILABLE status say that the server refused the stream, as it does with those that a GOAWAY overtook: grpc-js
 * retries these itself. Without it, they would count as connections that were lost.
 */
export function isRefusedStream(details: string): boolean {
  return REFUSED.test(details);
}

/** The metadata entry in which grpc-js writes how many attempts its own retry policy made before the current one. */
export const previousAttempts = 'grpc-previous-rpc-attempts';

/**
 * Whether grpc-js made a status itself: a server's trailers contain at least its content type, and grpc-js counts attempts in both. Without
 * it, servers would be blamed for errors of this client.
 */
export function isOwnStatus(trailers: Metadata): boolean {
  return Object.keys(trailers.getMap()).every((name) => name === previousAttempts);
}

/**
 * A retry policy for methods without one. grpc-js repeats a refused call once by itself. When several servers send GOAWAY at the same time, calls are refused twice, which is
 * no reason to fail: no server has seen them. With this grpc-js asks the picker about every call that is UNAVAILABLE, and the picker
 * turns away those that a server may have seen. It also decides how often, because no number of attempts reaches NaN; grpc-js would
 * count to five.
 */
export const repeatRefused: NonNullable<CallConfig['methodConfig']['retryPolicy']> = Object.freeze({
  maxAttempts: Number.NaN,
  initialBackoff: '0s',
  maxBackoff: '0s',
  backoffMultiplier: 1,
  retryableStatusCodes: Object.freeze(['UNAVAILABLE']) as never,
});
