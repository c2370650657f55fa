#!/usr/bin/env node
import '../dist/locks.js'
