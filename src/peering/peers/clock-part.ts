// The part of a heartbeat about clocks: when the sender sent it, and which message of the receiver it heard
// last, as in NTP (RFC 5905 §8). Type and strict parser. A time of the other site is a claim: it is compared
// with the own clock, and moves nothing.

import { malformed, Message } from '../message-reader.ts';

export interface ClockPart {
  /** By the clock of the sender, in milliseconds since 1970. */
  readonly sentAtMs: number;
  /** The last message of the receiver that the sender heard. */
  readonly heard?: HeardMessage;
}

export interface HeardMessage {
  /** `sentAtMs` of that message, by the clock of the site that sent it. */
  readonly sentAtMs: number;
  /** When it arrived, by the clock of the site that heard it. */
  readonly atMs: number;
}

/** The end of the year 9999, the last that a timestamp of the API can have. */
const latestMs = 253_402_300_799_999;

export function parseClockPart(value: unknown): ClockPart {
  const clock = new Message(value);
  return {
    sentAtMs: timeIn(clock, 'sentAtMs'),
    ...clock.optional('heard', (heard) => {
      const message = new Message(heard);
      return { sentAtMs: timeIn(message, 'sentAtMs'), atMs: timeIn(message, 'atMs') };
    }),
  };
}

function timeIn(message: Message, key: string): number {
  const time = message.count(key);
  if (time > latestMs) throw malformed(`${key} is not a time before the year 10000`);
  return time;
}
