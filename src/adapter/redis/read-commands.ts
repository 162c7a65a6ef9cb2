const words = (text: string): readonly string[] => text.trim().split(/\s+/);

/**
 * The commands that Redis 7 flags `readonly`, except those that block (XREAD), continue what one server began (the SCAN family), run
 * scripts, or are sent for their effect (TOUCH). A test compares the list with the flags of a real server.
 */
export const readCommandNames: readonly string[] = words(`
  bitcount bitfield_ro bitpos dbsize dump exists expiretime geodist geohash geopos georadius_ro georadiusbymember_ro geosearch get
  getbit getrange hexists hexpiretime hget hgetall hkeys hlen hmget hpexpiretime hpttl hrandfield hstrlen httl hvals keys lcs lindex
  llen lpos lrange mget pexpiretime pfcount pttl randomkey scard sdiff sinter sintercard sismember smembers smismember sort_ro
  srandmember strlen substr sunion ttl type xlen xpending xrange xrevrange zcard zcount zdiff zinter zintercard zlexcount zmscore
  zrandmember zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebylex zrevrangebyscore zrevrank zscore zunion`);

/**
 * Commands that replicas must not answer, although servers flag some of them `readonly`: they block, continue earlier commands, or concern
 * one connection.
 */
export const neverReads: ReadonlySet<string> = new Set(
  words(`scan hscan sscan zscan xread xreadgroup blpop brpop brpoplpush blmove blmpop bzpopmin bzpopmax bzmpop wait waitaof
    multi exec discard watch unwatch select auth hello reset quit client subscribe psubscribe ssubscribe unsubscribe
    punsubscribe sunsubscribe monitor ft.cursor`),
);
