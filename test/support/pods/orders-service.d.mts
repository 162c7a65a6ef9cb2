import type { GenService } from '@bufbuild/protobuf/codegenv2';
import type { StringValueSchema } from '@bufbuild/protobuf/wkt';

interface Method<Kind extends string> {
  readonly methodKind: Kind;
  readonly input: typeof StringValueSchema;
  readonly output: typeof StringValueSchema;
}

/** The type that a generator would write for the service in `orders-service.mjs`. */
export type OrdersService = GenService<{
  say: Method<'unary'>;
  get: Method<'unary'>;
  count: Method<'server_streaming'>;
  collect: Method<'client_streaming'>;
  chat: Method<'bidi_streaming'>;
}>;

export declare const Orders: OrdersService;
