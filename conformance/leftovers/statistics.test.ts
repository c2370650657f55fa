import { expect, test } from 'vitest'
import { isFlat, medianOf } from './statistics.ts'

test('the median is in the middle, and its bounds come closer with more values', () => {
  const upTo = (n: number): number[] => Array.from({ length: n }, (_, i) => (i + 1) / (n + 1))
  expect(medianOf([3, 1, 2]).median).toBe(2)
  expect(medianOf([4, 1, 2, 3]).median).toBe(2.5)
  const [few, many] = [medianOf(upTo(25)), medianOf(upTo(2_500))]
  expect(few.median).toBeCloseTo(0.5)
  expect(few.low).toBeLessThan(0.4)
  expect(few.high).toBeGreaterThan(0.6)
  expect(many.high - many.low).toBeLessThan((few.high - few.low) / 5)
})

test('what grows with every name is not flat, what varies around a level is', () => {
  const samples = Array.from({ length: 30 }, (_, i) => i)
  expect(isFlat(samples.map((i) => i * 3e6))).toBe(false)
  expect(isFlat(samples.map((i) => 30e6 + (i % 7) * 1e6))).toBe(true)
})

test('what still grows in its last third is not flat, however much there is already', () => {
  const grown = (last: number): number[] => [20e6, 30e6, 70e6, 80e6, 90e6, last]
  expect(isFlat(grown(100e6))).toBe(false)
  expect(isFlat([20e6, 30e6, 78e6, 80e6, 79e6, 87e6])).toBe(true)
})
