// The two RFC 3339 parsers of kube-apiserver: a lenient one for the schema format `date-time`, and
// a strict one for timestamps in metadata.

import { quoteGo } from '../schema/go-text.ts';

const timeOfDay = /^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$/;
const date = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/;

function daysIn(year: number, month: number): number {
  return new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate();
}

function isDate(text: string): boolean {
  const match = date.exec(text);
  if (match === null) return false;
  const [year, month, day] = [Number(match[1]), Number(match[2]), Number(match[3])];
  return month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
}

/** strfmt.IsDateTime of kube-openapi: RFC 3339 section 5.6, in either case. */
export function validateDateTime(text: string): boolean {
  const [day, time] = text.toLowerCase().split('t', 2);
  if (day === undefined || time === undefined || !isDate(day)) return false;
  const match = timeOfDay.exec(time);
  if (match === null) return false;
  return (match[1] ?? '') <= '23' && (match[2] ?? '') <= '59' && (match[3] ?? '') <= '59';
}

const timestampGrammar =
  /^([0-9]{4}-[0-9]{2}-[0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))$/;

/** The years that a timestamp can be written in again; an offset can lead out of them. */
const firstMoment = Date.parse('0000-01-01T00:00:00Z');
const lastMoment = Date.parse('9999-12-31T23:59:59.999Z');

/**
 * The moment in milliseconds, or undefined: what Go's time.Parse(time.RFC3339, text) accepts, one
 * digit for the hour and offsets of up to 24:60 included. Unlike Go it refuses what is not in the
 * years 0 to 9999 of UTC.
 */
export function parseTimestamp(text: string): number | undefined {
  const match = timestampGrammar.exec(text);
  if (match === null) return undefined;
  const [, day = '', hour, minute, second, fraction = '', sign, zoneHour = 0, zoneMinute = 0] =
    match;
  if (!isDate(day) || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) {
    return undefined;
  }
  if (Number(zoneHour) > 24 || Number(zoneMinute) > 60) return undefined;
  const seconds = (Number(hour) * 60 + Number(minute)) * 60 + Number(second);
  const offset = (Number(zoneHour) * 60 + Number(zoneMinute)) * 60 * (sign === '-' ? -1 : 1);
  const moment =
    Date.parse(`${day}T00:00:00Z`) +
    (seconds - offset) * 1000 +
    Number(fraction.slice(0, 3).padEnd(3, '0'));
  return moment < firstMoment || moment > lastMoment ? undefined : moment;
}

interface LayoutElement {
  readonly layout: string;
  readonly grammar: RegExp;
  /** What is out of its range, if anything is. */
  readonly outside?: (found: RegExpExecArray) => string | undefined;
}

const literal = (layout: string): LayoutElement => ({ layout, grammar: new RegExp(`^${layout}`) });

function number(
  layout: string,
  grammar: RegExp,
  name: string,
  from: number,
  to: number,
): LayoutElement {
  const outside = (found: RegExpExecArray): string | undefined => {
    const value = Number(found[1] ?? found[0]);
    return value < from || value > to ? name : undefined;
  };
  return { layout, grammar, outside };
}

const twoDigits = /^[0-9]{2}/;

/** The elements of Go's layout 2006-01-02T15:04:05Z07:00, in the order in which it reads them. */
const layoutElements: readonly LayoutElement[] = [
  { layout: '2006', grammar: /^[0-9]{4}/ },
  literal('-'),
  number('01', twoDigits, 'month', 1, 12),
  literal('-'),
  { layout: '02', grammar: twoDigits },
  literal('T'),
  number('15', /^[0-9]{1,2}/, 'hour', 0, 23),
  literal(':'),
  number('04', twoDigits, 'minute', 0, 59),
  literal(':'),
  number('05', /^([0-9]{2})([.,][0-9]+)?/, 'second', 0, 59),
  {
    layout: 'Z07:00',
    grammar: /^(?:Z|[+-]([0-9]{2}):([0-9]{2}))/,
    outside: ([, hour, minute]) => {
      if (Number(minute ?? 0) > 60) return 'time zone offset minute';
      return Number(hour ?? 0) > 24 ? 'time zone offset hour' : undefined;
    },
  },
];

/** Why Go's time.Parse refuses a text that `parseTimestamp` refuses, in its words. */
export function timestampProblem(text: string): string {
  let rest = text;
  for (const { layout, grammar, outside } of layoutElements) {
    const found = grammar.exec(rest);
    if (found === null) {
      return `parsing time ${quoteGo(text)} as "2006-01-02T15:04:05Z07:00": cannot parse ${quoteGo(rest)} as "${layout}"`;
    }
    const wrong = outside?.(found);
    if (wrong !== undefined) return `parsing time ${quoteGo(text)}: ${wrong} out of range`;
    rest = rest.slice(found[0].length);
  }
  if (rest !== '') return `parsing time ${quoteGo(text)}: extra text: ${quoteGo(rest)}`;
  const wrong = isDate(text.slice(0, 10)) ? 'year' : 'day';
  return `parsing time ${quoteGo(text)}: ${wrong} out of range`;
}
